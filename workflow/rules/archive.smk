# What an archive has in place of models and boots: stored records and files, at paths relative to the config's folder.
from draftmeter.study.archive import find_stored

try:
    MATERIAL = find_stored(
        STUDY, Path(os.path.relpath(workflow.configfiles[-1])).parent
    )
except ConfigError as error:
    refuse(error)
