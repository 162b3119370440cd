//! What sinks made of changes in another workspace: the table `_made`.

use rusqlite::{Connection, named_params};
use shopmirror_core::record::MadeRecord;

use crate::store::sql::Sql;

/// A record that was made stays one: a repeat of its change is no duplicate.
const INSERT: &str = "
    INSERT INTO _made (sink, event_id, outcome, made_id, request_id, at)
    VALUES (:sink, :event_id, :outcome, :made_id, :request_id, :at)
    ON CONFLICT (sink, event_id) DO UPDATE SET
        outcome = excluded.outcome,
        made_id = excluded.made_id,
        request_id = excluded.request_id,
        at = excluded.at
    WHERE outcome <> 'made'";

pub(in crate::store) fn insert(
    tx: &Connection,
    sink: &str,
    made: &MadeRecord,
    at: &str,
) -> rusqlite::Result<()> {
    let values = named_params! {
        ":sink": sink,
        ":event_id": made.event_id,
        ":outcome": <&'static str>::from(made.outcome),
        ":made_id": made.id,
        ":request_id": made.request_id,
        ":at": at,
    };
    tx.run(INSERT, values).map(drop)
}
