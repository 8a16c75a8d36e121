# What an archive has in place of models and boots: stored records and files, at paths relative to the config's folder.
from draftmeter.study.archive import find_stored

try:
    STORED = find_stored(STUDY, Path(os.path.relpath(workflow.configfiles[-1])).parent)
except ConfigError as error:
    refuse(error)

BOOTS = list(map(str, STORED.boots))
STORED_FILES = list(map(str, STORED.files))
STORED_SOURCES = canonical_json([source.model_dump() for source in STORED.others])
ANSWERS = [str(STORED.known_answer)] if STORED.known_answer else []
