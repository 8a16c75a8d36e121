"""What is planned: the config of a study or an archive, whether its parts fit together, and what each boot does."""
