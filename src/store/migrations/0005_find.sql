-- The words of every record's newest version, for `shopmirror find`; a row's number is the number of
-- that version in `changes`. It holds no text, only which words stand where.
CREATE VIRTUAL TABLE _search USING fts5(
    text, content='', columnsize=0, detail=none, tokenize='unicode61 remove_diacritics 2'
);
