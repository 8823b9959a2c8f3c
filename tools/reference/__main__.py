"""Command that writes every reference page."""

from __future__ import annotations

from tools.reference.pages import FOLDER, PAGES


def main() -> None:
    """Write every page whose content changed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        path, text = FOLDER / f"{name}.md", page()
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(f"wrote {path}")


if __name__ == "__main__":
    main()
