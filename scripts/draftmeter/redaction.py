"""What names a secret, and commands and environments without the secrets' values."""

# A name that ends in one of these words names a secret: --api-key, HF_TOKEN. (--max-num-batched-tokens does not.)
SECRET_WORDS = ("key", "token", "secret", "password")


def is_secret(name: str) -> bool:
    """Whether an argument or a variable of this name holds a secret."""
    return name.lower().replace("_", "-").split("-")[-1] in SECRET_WORDS


def redacted(command: list[str]) -> list[str]:
    """The command line without the values of arguments whose name says that they are secret."""
    shown: list[str] = []
    for part in command:
        before = shown[-1] if shown else ""
        if "=" in part and is_secret(part.partition("=")[0]):
            shown.append(f"{part.partition('=')[0]}=<redacted>")
        elif before.startswith("--") and is_secret(before) and not part.startswith("--"):
            shown.append("<redacted>")
        else:
            shown.append(part)
    return shown


def redacted_environment(environment: dict[str, str]) -> dict[str, str]:
    """The environment without the values of variables whose name says that they are secret."""
    return {name: "<redacted>" if is_secret(name) else value for name, value in sorted(environment.items())}
