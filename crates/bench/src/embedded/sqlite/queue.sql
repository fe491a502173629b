-- States: 0 ready, 1 leased, 2 done. The unique key detects duplicates; the number defines the order.
CREATE TABLE queue (
    number INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    id TEXT NOT NULL,
    topic TEXT NOT NULL,
    payload BLOB NOT NULL,
    state INTEGER NOT NULL DEFAULT 0,
    owner INTEGER,
    leased_until INTEGER,
    UNIQUE (source, id)
) STRICT
