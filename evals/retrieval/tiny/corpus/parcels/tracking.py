"""Where each parcel was seen, kept in SQLite."""

import sqlite3
from datetime import datetime


class Tracker:
    """An append-only log of scans; the newest one tells where a parcel is."""

    def __init__(self, path: str) -> None:
        self.connection = sqlite3.connect(path)
        self.connection.execute("PRAGMA journal_mode=WAL")

    def scanned(self, barcode: str, remote: str, when: datetime) -> None:
        """Write down one scan."""
        self.connection.execute("INSERT INTO scan VALUES (?, ?, ?)", (barcode, remote, when.isoformat()))

    def whereabouts(self, barcode: str) -> str | None:
        """The remote of the latest scan."""
        row = self.connection.execute(
            "SELECT remote FROM scan WHERE barcode = ? ORDER BY seen_at DESC LIMIT 1", (barcode,)
        ).fetchone()
        return row[0] if row else None
