-- Tables of the parcel service.
CREATE TABLE customer (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    email TEXT NOT NULL UNIQUE
);

CREATE TABLE scan (
    barcode TEXT NOT NULL,
    depot TEXT NOT NULL,
    seen_at TEXT NOT NULL
);

CREATE INDEX scan_by_barcode ON scan (barcode, seen_at);
