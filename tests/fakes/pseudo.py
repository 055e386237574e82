"""gonogo in a language that nobody speaks: each text is its English between ⟦ and ⟧.

What a command writes outside of them was not looked up in the catalogue. Run it as
`python -m fakes.pseudo WORDS…`, with the folder that `write` has written in `PSEUDO_TEXTS`.
"""

import io
import os
import shutil
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo

import gonogo.i18n
from fakes.catalogues import ids, messages, texts


def write(folder: Path) -> None:
    """Write the catalogue of that language where those of all languages are looked for."""
    english, pseudo = texts("en"), Catalog("ru")
    for message in messages("ru"):
        said = [
            f"⟦{english.get(key, key) if message.context is None else key}⟧" for key in ids(message)
        ]
        plural = (said[0], said[-1], said[-1]) if len(said) > 1 else said[0]
        pseudo.add(message.id, plural, context=message.context)
    compiled = io.BytesIO()
    write_mo(compiled, pseudo)
    (folder / "ru.mo").write_bytes(compiled.getvalue())
    shutil.copy(Path(gonogo.i18n.__file__).parent / "locale" / "en.mo", folder)


def main() -> None:
    """Run the command line with these texts in the place of the Russian ones."""
    from gonogo.cli import main as run

    gonogo.i18n._FOLDER = Path(os.environ["PSEUDO_TEXTS"])
    gonogo.i18n._catalogue.cache_clear()
    os.environ["GONOGO_LOCALE"] = "ru"
    run()


if __name__ == "__main__":
    main()
