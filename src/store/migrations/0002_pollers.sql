-- What a poller must remember to judge the next page, and what the operator had removed.

-- The last row of the log when `head` was taken: a record changed by a later row proves nothing.
ALTER TABLE pollers ADD COLUMN head_seq INTEGER NOT NULL DEFAULT 0;
UPDATE pollers SET head_seq = (SELECT coalesce(max(seq), 0) FROM changes);
-- Since when the route shows no record although it showed some before; NULL while it shows some.
ALTER TABLE pollers ADD COLUMN emptied_at TEXT;
-- The business that answered, as `X-Business` of the last page says; NULL if no page said.
ALTER TABLE pollers ADD COLUMN served_business TEXT;

-- Records whose data the operator had removed. They are not mirrored again.
CREATE TABLE forgotten (
    route        TEXT NOT NULL,
    record_id    TEXT NOT NULL,
    forgotten_at TEXT NOT NULL,
    PRIMARY KEY (route, record_id)
) STRICT, WITHOUT ROWID;
