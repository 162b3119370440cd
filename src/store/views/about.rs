//! The table `_about`: what each table, view and column holds, for people and for Datasette.

use rusqlite::Connection;
use sha2::{Digest, Sha256};

use super::columns::{RouteColumns, view_columns};
use super::view_name;
use crate::record::Route;

/// Our own tables: name, column or "", what it holds.
const OWN: &[(&str, &str, &str)] = &[
    ("_about", "", "What each table, view and column of this file holds."),
    ("_about", "name", "The table or view."),
    ("_about", "column_name", "The column; empty for the table or view itself."),
    ("_about", "about", "What it holds."),
    (
        "_time_zone_offsets",
        "",
        "The offsets of the workspace's time zone from UTC; the views use them.",
    ),
    ("_time_zone_offsets", "from_at", "From this time (UTC) on, until the next row."),
    ("_time_zone_offsets", "seconds", "Seconds to add to UTC."),
    ("_meta", "", "Facts about this file."),
    ("_meta", "name", "The name of the fact."),
    ("_meta", "value", "Its value."),
    (
        "changes",
        "",
        "The log: one row for each version of each record, and for each gap. Only added to; old versions are deleted after the retention time.",
    ),
    ("changes", "seq", "The number of the change."),
    ("changes", "event_id", "The id under which every sink receives the change."),
    ("changes", "route", "The route of the record."),
    ("changes", "record_id", "The record's id; empty for a gap."),
    ("changes", "kind", "baseline, created, updated, gap or forgotten."),
    ("changes", "version", "The version of the record, from 1; for a gap, its number."),
    ("changes", "observed_at", "When shopmirror saw it (UTC)."),
    ("changes", "business", "The business (branch); empty for the default."),
    ("changes", "body", "The record as JSON, exactly as received."),
    ("_pollers", "", "What shopmirror knows about each route of each business."),
    ("_pollers", "route", "The route."),
    ("_pollers", "business", "The business; empty for the default."),
    ("_pollers", "first_polled_at", "When the route was first read (UTC)."),
    (
        "_pollers",
        "complete_since",
        "Since when every created record was seen, but for gaps (UTC); empty if the first page held all.",
    ),
    (
        "_pollers",
        "last_success_at",
        "When the last page that was read was requested (UTC); written once a minute.",
    ),
    ("_pollers", "last_change_at", "When it last showed something new (UTC)."),
    ("_pollers", "high_id", "The highest id seen, while ids are integers."),
    ("_pollers", "page_limit", "The most records on its last page."),
    ("_pollers", "head", "The last page, by which the next one is judged."),
    ("_pollers", "learned", "What the schedule has learned."),
    ("_pollers", "head_seq", "The last number of the log when `head` was saved."),
    (
        "_pollers",
        "emptied_at",
        "Since when the route shows no record although it showed some before.",
    ),
    ("_pollers", "served_business", "The business that answered."),
    ("_polls", "", "Runs of polls with the same outcome; kept for 30 days."),
    ("_polls", "id", "The number of the run."),
    ("_polls", "route", "The route."),
    ("_polls", "business", "The business; empty for the default."),
    ("_polls", "outcome", "What the polls came to."),
    ("_polls", "detail", "Why they failed."),
    ("_polls", "polls", "How many polls."),
    ("_polls", "from_at", "When the first of them ended (UTC)."),
    ("_polls", "to_at", "When the last of them ended (UTC)."),
    ("_polls", "records", "Records on the pages."),
    ("_polls", "created", "Records seen for the first time."),
    ("_polls", "updated", "Records that had changed."),
    ("_polls", "overlap", "Records shared with the page before."),
    ("_polls", "latency_ms", "Milliseconds that the requests took."),
    ("_polls", "remaining", "Requests left on the key, as the server said."),
    ("gaps", "", "Intervals in which records may have been missed."),
    ("gaps", "id", "The number of the gap."),
    ("gaps", "route", "The route."),
    ("gaps", "business", "The business; empty for the default."),
    ("gaps", "certainty", "gap: records were missed. suspect: they may have been missed."),
    ("gaps", "found_at", "When the gap was found (UTC)."),
    ("gaps", "from_at", "The poll before it (UTC)."),
    ("gaps", "to_at", "The poll that found it (UTC)."),
    ("gaps", "after_id", "The missed records come after this id."),
    ("gaps", "before_id", "The missed records come before this id."),
    ("gaps", "estimate", "About how many records were missed."),
    ("gaps", "estimate_error", "How far the estimate may be off."),
    ("gaps", "state", "open, partly_repaired, repaired or accepted."),
    ("gaps", "repaired", "Missed records that were found since."),
    ("gaps", "note", "What the operator wrote when accepting it."),
    ("gaps", "searched_seq", "Up to which number the log was searched for names."),
    ("gaps", "searches", "How many searches were made for it."),
    ("_sinks", "", "The destinations of changes, and how far each is."),
    ("_sinks", "name", "The name of the sink."),
    ("_sinks", "type", "Its type."),
    ("_sinks", "state", "What it does."),
    ("_sinks", "position", "Everything up to this number is done with."),
    ("_sinks", "delivered", "Changes delivered."),
    ("_sinks", "created_at", "When the sink was first configured (UTC)."),
    ("_sinks", "last_success_at", "The last delivery (UTC)."),
    ("_sinks", "last_error", "The last error."),
    ("_sinks", "last_error_at", "When it happened (UTC)."),
    ("_sinks", "retrying", "Changes that wait for a retry."),
    ("_sinks", "dead", "Changes that the sink refused for good."),
    ("_sinks", "filtered", "Changes that the sink did not ask for."),
    (
        "_sinks",
        "skipped",
        "Changes before its beginning, those that were dropped, and changes no longer in the log.",
    ),
    ("_sinks", "gate", "open, or held: too many changes came at once and wait for an operator."),
    ("_sinks", "released_to", "Changes up to this row of the log are not counted by hold_above."),
    ("_deliveries", "", "Changes that a sink could not take yet or refused for good."),
    ("_deliveries", "sink", "The sink."),
    ("_deliveries", "seq", "The change."),
    ("_deliveries", "route", "The route of its record."),
    ("_deliveries", "record_id", "The id of its record."),
    ("_deliveries", "state", "retrying, waiting or dead."),
    ("_deliveries", "attempts", "Attempts so far."),
    ("_deliveries", "next_attempt_at", "When it is tried again (UTC)."),
    ("_deliveries", "last_error", "Why the last attempt failed."),
    ("_deliveries", "since", "When it was first refused (UTC)."),
    (
        "_deliveries",
        "only_if_newest",
        "1: a dead letter that is sent again only while the sink has no newer version of its record.",
    ),
    ("_notices", "", "Alerts and reports that a sink has not taken; they are no changes."),
    ("_notices", "id", "The notice's number."),
    ("_notices", "sink", "The sink."),
    ("_notices", "event_id", "The same in every attempt."),
    ("_notices", "kind", "alert or report."),
    ("_notices", "about", "What it is about."),
    ("_notices", "version", "Counts what is said about the same matter."),
    ("_notices", "made_at", "When it was made (UTC)."),
    ("_notices", "body", "What it says, as JSON."),
    ("_notices", "attempts", "How often the sink refused it."),
    ("_notices", "next_attempt_at", "When it is tried again (UTC)."),
    ("_notices", "last_error", "Why the last attempt failed."),
    (
        "_notices",
        "given_up_at",
        "When the sink refused it for good (UTC); a reload sends it again.",
    ),
    ("_alerts", "", "What is wrong now, for each sink that is told."),
    ("_alerts", "sink", "The sink."),
    ("_alerts", "about", "key, health, gap/ROUTE or sink/NAME."),
    ("_alerts", "since", "When it was first seen (UTC)."),
    ("_alerts", "told", "How bad it was when the sink was told last; 0 before that."),
    ("_replays", "", "The last replay of each sink: older changes that it is given once more."),
    ("_replays", "sink", "The sink."),
    ("_replays", "id", "Tells it apart from an earlier one."),
    ("_replays", "from_seq", "The range begins after this row of the log."),
    ("_replays", "to_seq", "The last row of the range."),
    ("_replays", "wanted", "Which changes of the range, as JSON."),
    ("_replays", "rate", "The most changes per second."),
    ("_replays", "position", "The last row that is done with."),
    ("_replays", "sent", "Changes that the sink has taken."),
    ("_replays", "refused", "Changes that it refused."),
    ("_replays", "left_out", "Changes that are parked or older than what the sink has."),
    ("_replays", "state", "running, done, cancelled or failed."),
    ("_replays", "last_error", "The last refusal or fault."),
    ("_replays", "failing_since", "Since when its next change fails (UTC)."),
    ("_replays", "failing_for_ms", "For how long the daemon has run since then, in milliseconds."),
    ("_replays", "begun_at", "When it was begun (UTC)."),
    ("_replays", "ended_at", "When it ended (UTC)."),
    ("_backfill_terms", "", "The searches that a backfill has made."),
    ("_backfill_terms", "business", "The business; empty for the default."),
    ("_backfill_terms", "term", "The text that was searched."),
    ("_backfill_terms", "returned", "Customers found."),
    ("_backfill_terms", "asked_at", "When (UTC)."),
    ("_custom_fields", "", "The definitions of the workspace's custom fields."),
    ("_custom_fields", "form_type", "The form."),
    ("_custom_fields", "business", "The business; empty for the default."),
    ("_custom_fields", "definition", "The fields as JSON, as received."),
    ("_custom_fields", "changed_at", "When they last changed (UTC)."),
    ("_columns", "", "Which column of a mirror table holds which field."),
    ("_columns", "route", "The table."),
    ("_columns", "field", "The field."),
    ("_columns", "column", "The column."),
    ("_columns", "position", "Its place, from 0."),
    ("_links", "", "How status changes and payments name their job."),
    ("_links", "route", "The route."),
    ("_links", "field", "The field of the route."),
    ("_links", "job_field", "The field of jobs that has the same value."),
    ("_job_states", "", "The current state of each job, for `report_jobs` and the reports."),
    ("_job_states", "id", "The job's id."),
    ("_job_states", "status", "Its status, from the newest source."),
    ("_job_states", "stage", "The stage of this status."),
    ("_job_states", "since", "Since when it has this status, as far as is known (UTC)."),
    ("_job_states", "source", "job or status change."),
    ("_job_states", "completed_at", "When it was completed (UTC)."),
    ("_job_states", "open_seconds", "How long it was open until then."),
    ("_job_states", "paid", "What was paid."),
    ("_types", "", "Without rows: it gives the columns of the views a type."),
    ("_types", "i", "An integer."),
    ("_types", "r", "A number."),
    ("_types", "t", "A text."),
    ("_forgotten", "", "Records whose data was removed by `shopmirror forget`."),
    ("_forgotten", "route", "The route."),
    ("_forgotten", "record_id", "The id of the record."),
    ("_forgotten", "forgotten_at", "When it was removed (UTC)."),
];

/// Columns that every mirror table has.
const MIRROR: [(&str, &str); 7] = [
    ("id", "The record's id, as text."),
    ("_business", "The business (branch) that showed the record; empty for the default."),
    ("_first_seen_at", "When shopmirror first saw the record (UTC)."),
    ("_changed_at", "When shopmirror last saw a change of it (UTC)."),
    ("_seq", "The number of its last change in the log."),
    (
        "_last_seen_at",
        "When a page showed the record last (UTC); empty while it is one of the newest.",
    ),
    ("_via", "`search` if only a search has shown it so far, else empty."),
];

fn about_route(route: Route) -> &'static str {
    match route {
        Route::Jobs => "The repairs",
        Route::Customers => "The customers",
        Route::Leads => "The leads",
        Route::Payments => "The payments",
        Route::JobStatusChanges => "The changes of a repair's status",
        Route::OutsourcedJobs => "The repairs given to other firms",
    }
}

/// Adds the descriptions to the digest from which the views are made.
pub(super) fn digest(hash: &mut Sha256) {
    for text in OWN.iter().flat_map(|(name, column, about)| [name, column, about]) {
        hash.update(text.as_bytes());
    }
    for (column, about) in MIRROR {
        hash.update(column.as_bytes());
        hash.update(about.as_bytes());
    }
}

/// Writes every description again.
pub(super) fn write(connection: &Connection, routes: &[RouteColumns]) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM _about", [])?;
    let mut insert = connection.prepare_cached(
        "INSERT OR IGNORE INTO _about (name, column_name, about) VALUES (?1, ?2, ?3)",
    )?;
    for row in OWN {
        insert.execute(*row)?;
    }
    for columns in routes {
        let (table, view) = (columns.route.as_str(), view_name(columns.route));
        let what = about_route(columns.route);
        insert.execute((
            table,
            "",
            format!("{what}: the latest state of each, as the workspace sends it."),
        ))?;
        insert.execute((&view, "", format!("{what}, for reports: numbers as numbers, times in the workspace's time zone, custom fields as columns.")))?;
        for (column, about) in MIRROR {
            insert.execute((table, column, about))?;
        }
        for field in &columns.fields {
            insert.execute((
                table,
                field,
                "A field as the workspace sends it; lists and objects as JSON.",
            ))?;
        }
        for column in view_columns(columns, routes).columns {
            insert.execute((&view, &column.name, &column.about))?;
        }
    }
    Ok(())
}
