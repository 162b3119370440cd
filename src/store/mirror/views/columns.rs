//! Which columns a view has, and the SQL of each.

use std::collections::{BTreeMap, HashMap};

use rusqlite::Connection;
use serde_json::value::RawValue;
use shopmirror_core::reading::{FieldKind, ReadField, fields_of};
use shopmirror_core::record::{Route, field_text};

use crate::store::mirror::job_links::{self, JobLink};
use crate::store::mirror::job_states::{PAID_MARK, PAID_MAX};
use crate::store::mirror::related::same_contact;
use crate::store::mirror::{self, derived, field_rules, free_name, quoted};
use crate::store::sightings::last_seen_sql;

/// Names of date fields that the shop enters (contract, "Read records").
const ENTERED_DATES: [&str; 4] = [
    "next_follow_up",
    "scheduled_on",
    "estimated_delivery",
    "received_at",
];
/// Our own columns of a mirror table that a view shows.
const OWN: [&str; 3] = ["_business", "_first_seen_at", "_changed_at"];
/// The type that a report tool sees: the column of the table `_types` that has it. There is one for
/// integers, `i`, as well.
const REAL: &str = "r";
const TEXT: &str = "t";
/// The newest rows decide the type of a column.
const SAMPLE: u32 = 200;
/// Further columns of the view of a route that stand for custom fields, at most.
const MAX_CUSTOM: usize = 100;

/// The columns of one mirror table, and the custom fields that the workspace defines for it.
pub(in crate::store) struct RouteColumns {
    pub(in crate::store) route: Route,
    /// The columns of the record's fields, without `id` and our own.
    pub(in crate::store) fields: Vec<String>,
    /// The fields of records that are read into a derived column, each with the one of reports.
    read: HashMap<String, ReadField>,
    /// The type of the newest values of `id` and of each field.
    types: HashMap<String, String>,
    /// The labels of the custom fields.
    pub(in crate::store) custom: Vec<String>,
    /// How the records name their job.
    pub(in crate::store) link: Option<JobLink>,
}

impl RouteColumns {
    pub(in crate::store) fn has(&self, column: &str) -> bool {
        column == "id"
            || column == "_seq"
            || OWN.contains(&column)
            || derived::names(self.route).iter().any(|name| name == column)
            || self.fields.iter().any(|field| field == column)
    }

    /// The type of a column; text as long as it has no values.
    fn type_of(&self, column: &str) -> &str {
        match self.types.get(column) {
            Some(letter) => letter,
            None => TEXT,
        }
    }
}

/// The columns of a view, and what its table is joined with.
#[derive(Default)]
pub(in crate::store) struct View {
    names: Vec<String>,
    /// Each column as SQL.
    pub(in crate::store) columns: Vec<String>,
    pub(in crate::store) joins: String,
}

impl View {
    /// Adds a column, under another name if its own is taken. SQLite before 3.41 has no type for
    /// an expression: it takes that of the last part, a column of a table without rows. The value
    /// stays as it is.
    fn add(&mut self, name: &str, column_type: &str, sql: &str) {
        let name = free_name(name, |name| self.names.contains(&name.to_lowercase()));
        let shown = quoted(&name);
        self.columns.push(format!(
            "(SELECT {sql} UNION ALL SELECT {column_type} FROM _types WHERE 0) AS {shown}"
        ));
        self.names.push(name.to_lowercase());
    }

    /// Adds a column unless the table has a field of that name.
    fn derive(&mut self, table: &RouteColumns, name: &str, column_type: &str, sql: &str) {
        if !table.has(name) {
            self.add(name, column_type, sql);
        }
    }
}

/// Reads the columns of all mirror tables and the definitions of the custom fields.
pub(in crate::store) fn read(connection: &Connection) -> rusqlite::Result<Vec<RouteColumns>> {
    let custom = custom_labels(connection)?;
    let links = job_links::read(connection)?;
    let settings = field_rules::settings(connection)?;
    let mut routes = Vec::new();
    for route in Route::ALL {
        let fields = mirror::field_columns(connection, route)?;
        let mut read = HashMap::new();
        for field in fields_of(route) {
            if let Some(source) = settings.source(route, field.name) {
                read.insert(source.to_owned(), *field);
            }
        }
        routes.push(RouteColumns {
            route,
            types: types(connection, route, &fields)?,
            fields,
            read,
            custom: custom.get(&route).cloned().unwrap_or_default(),
            link: links.iter().find(|link| link.route == route).cloned(),
        });
    }
    Ok(routes)
}

/// The type of the newest values of each field; none for a field without values. An id is text in
/// the table. A column that holds reals among integers is real, and one that holds any text is
/// text: the last letter of all.
fn types(
    connection: &Connection,
    route: Route,
    fields: &[String],
) -> rusqlite::Result<HashMap<String, String>> {
    let mut names = vec!["id"];
    let mut letters = vec![type_letter(&id("r.id"))];
    for field in fields {
        names.push(field);
        letters.push(type_letter(&format!("r.{}", quoted(field))));
    }
    let sql = format!(
        "SELECT {}
        FROM (SELECT * FROM \"{route}\" ORDER BY rowid DESC LIMIT {SAMPLE}) r",
        letters.join(", ")
    );
    connection.query_row(&sql, [], |row| {
        let mut types = HashMap::new();
        for (place, name) in names.iter().enumerate() {
            if let Some(letter) = row.get(place)? {
                types.insert((*name).to_owned(), letter);
            }
        }
        Ok(types)
    })
}

/// The letter of the type of a column's values, as SQL.
fn type_letter(column: &str) -> String {
    format!(
        "max(CASE typeof({column})
            WHEN 'integer' THEN 'i'
            WHEN 'real' THEN 'r'
            WHEN 'null' THEN NULL
            ELSE 't'
        END)"
    )
}

/// The labels of the custom fields by the route whose records carry them. One definition is in
/// memory at a time.
fn custom_labels(connection: &Connection) -> rusqlite::Result<BTreeMap<Route, Vec<String>>> {
    let mut custom: BTreeMap<Route, Vec<String>> = BTreeMap::new();
    let sql = "
        SELECT form_type, definition
        FROM _custom_fields
        ORDER BY form_type, business";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let Some(route) = route_of_form(row.get_ref(0)?.as_str()?) else {
            continue;
        };
        let of_route = custom.entry(route).or_default();
        for label in labels(row.get_ref(1)?.as_str()?) {
            if of_route.len() < MAX_CUSTOM && !of_route.contains(&label) {
                of_route.push(label);
            }
        }
    }
    Ok(custom)
}

/// The route whose records carry the fields of a form. The contract names only the form `Lead`.
fn route_of_form(form: &str) -> Option<Route> {
    let word: String = form
        .to_lowercase()
        .chars()
        .filter(char::is_ascii_lowercase)
        .collect();
    let forms = [
        ("lead", Route::Leads),
        ("enquiry", Route::Leads),
        ("customer", Route::Customers),
        ("client", Route::Customers),
        ("outsourc", Route::OutsourcedJobs),
        ("payment", Route::Payments),
        ("job", Route::Jobs),
        ("repair", Route::Jobs),
        ("checkin", Route::Jobs),
    ];
    for (part, route) in forms {
        if word.contains(part) {
            return Some(route);
        }
    }
    None
}

/// The labels in a form's definitions. The contract does not name the members of a definition.
fn labels(definitions: &str) -> Vec<String> {
    let definitions: Vec<&RawValue> = serde_json::from_str(definitions).unwrap_or_default();
    let mut labels = Vec::new();
    for definition in definitions {
        if let Some(label) = label(definition.get())
            && !label.is_empty()
            && label.len() <= 200
            && !label.contains('\0')
        {
            labels.push(label);
        }
    }
    labels
}

/// The first member of a definition that may be its label and is a text.
fn label(definition: &str) -> Option<String> {
    for member in ["field_name", "name", "label"] {
        if let Some(json) = field_text(definition, member)
            && let Ok(text) = serde_json::from_str(json)
        {
            return Some(text);
        }
    }
    None
}

/// The columns of a route's view; `all` are the tables that it may be joined with.
pub(in crate::store) fn view_columns(table: &RouteColumns, all: &[RouteColumns]) -> View {
    let mut columns = View::default();
    columns.add("id", table.type_of("id"), &id("r.id"));
    for field in &table.fields {
        let column = format!("r.{}", quoted(field));
        if let Some(read) = table.read.get(field) {
            add_read(&mut columns, field, *read);
        } else if is_time(field) {
            columns.add(field, TEXT, &local(&column));
        } else if is_amount(field) {
            columns.add(field, REAL, &number(&column));
        } else {
            columns.add(field, table.type_of(field), &column);
        }
    }
    columns.joins = joined(table, all, &mut columns);
    if table.route == Route::Jobs {
        columns
            .joins
            .push_str(" LEFT JOIN _job_states s ON s.id = r.id");
        add_current_state(&mut columns);
    }
    if table.route == Route::Payments {
        columns.derive(table, "kind", TEXT, "r._kind");
    }
    if table.has("custom_fields") {
        for label in &table.custom {
            let key = label
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\'', "''");
            let path = format!("'$.\"{key}\"'");
            let sql = format!(
                "CASE WHEN json_valid(r.custom_fields) \
                 THEN json_extract(r.custom_fields, {path}) END"
            );
            columns.add(label, TEXT, &sql);
        }
    }
    let last_seen = format!(
        "{} FROM (SELECT {} AS at) seen",
        local("seen.at"),
        last_seen_sql(table.route, "r")
    );
    columns.add("last_seen_at", TEXT, &last_seen);
    columns.add("_business", TEXT, "r._business");
    columns.add("_first_seen_at", TEXT, &local("r._first_seen_at"));
    columns.add("_changed_at", TEXT, &local("r._changed_at"));
    columns.add("_unreadable", TEXT, "r._unreadable");
    columns
}

/// A field that a reader reads: its derived column.
fn add_read(columns: &mut View, field: &str, read: ReadField) {
    let column = format!("r._{}", read.name);
    match read.kind {
        FieldKind::Instant => columns.add(field, TEXT, &local(&column)),
        FieldKind::Day => columns.add(field, TEXT, &column),
        FieldKind::Amount => columns.add(field, REAL, &column),
    }
    if read.name == "created_at" {
        let day = format!("substr({}, 1, 10)", local(&column));
        columns.add("created_date", TEXT, &day);
    }
}

/// What a job is now, from its newest source.
fn add_current_state(columns: &mut View) {
    columns.add("current_status", TEXT, "s.status");
    columns.add("current_stage", TEXT, "s.stage");
    columns.add("status_since", TEXT, &local("s.since"));
    columns.add("completed_at", TEXT, &local("s.completed_at"));
    columns.add("completed_by", TEXT, "s.completed_by");
    columns.add("paid_total", REAL, "s.paid");
    columns.add("paid_total_mark", TEXT, PAID_MARK);
    columns.add("paid_total_max", REAL, PAID_MAX);
    columns.add(
        "turnaround_days",
        REAL,
        "round(s.open_seconds / 86400.0, 2)",
    );
    columns.add("state_source", TEXT, "s.source");
}

/// Joins the job of a record by its link, and the customer by the number of the mobile phone, else
/// by e-mail. Each finds one row at most, so that SQLite leaves out a join that a query does not
/// use.
fn joined(table: &RouteColumns, all: &[RouteColumns], columns: &mut View) -> String {
    let mut joins = String::new();
    // Where the contact of the customer is: in the job, if there is one.
    let mut alias = "r";
    let mut source = table;
    if let Some(link) = &table.link
        && let Some(jobs) = all.iter().find(|other| other.route == Route::Jobs)
    {
        joins.push_str(&format!(
            " LEFT JOIN jobs j ON j.rowid = (SELECT n.rowid FROM jobs n \
             WHERE {} ORDER BY n.rowid LIMIT 1)",
            link.condition("r", "n")
        ));
        columns.derive(table, "job_id", jobs.type_of("id"), &id("j.id"));
        alias = "j";
        source = jobs;
    }
    if table.route == Route::Customers {
        return joins;
    }
    let customers = all.iter().find(|other| other.route == Route::Customers);
    let Some(customers) = customers else {
        return joins;
    };
    let mut rows = Vec::new();
    for same in same_contact(alias, "n", |field| {
        source.has(field) && customers.has(field)
    }) {
        rows.push(format!(
            "(SELECT n.rowid FROM customers n WHERE {same} ORDER BY n.rowid LIMIT 1)"
        ));
    }
    let row = match rows.len() {
        0 => return joins,
        1 => rows.remove(0),
        _ => format!("coalesce({})", rows.join(", ")),
    };
    joins.push_str(&format!(" LEFT JOIN customers c ON c.rowid = {row}"));
    columns.derive(table, "customer_id", customers.type_of("id"), &id("c.id"));
    if customers.has("name") {
        columns.derive(table, "customer_name", TEXT, "c.\"name\"");
    }
    if customers.has("customer_type") {
        columns.derive(table, "customer_type", TEXT, "c.\"customer_type\"");
    }
    if customers.has("created_at") {
        columns.derive(table, "customer_since", TEXT, &local("c._created_at"));
    }
    joins
}

fn is_time(field: &str) -> bool {
    let name = field.to_ascii_lowercase();
    ENTERED_DATES.contains(&name.as_str())
        || ["_at", "_on", "_date", "_time"]
            .iter()
            .any(|end| name.ends_with(end))
}

fn is_amount(field: &str) -> bool {
    let name = field.to_ascii_lowercase();
    ["amount", "cost", "price", "total", "balance"]
        .iter()
        .any(|end| name.ends_with(end))
}

/// An id as a number if it is an integer as the API writes them.
fn id(column: &str) -> String {
    format!(
        "CASE WHEN {column} GLOB '[1-9]*' \
         AND {column} NOT GLOB '*[^0-9]*' \
         AND length({column}) < 19 \
         THEN CAST({column} AS INTEGER) ELSE {column} END"
    )
}

/// A UTC time as a time of the workspace, to the second; any other text as it is. The fraction is
/// cut first, because SQLite would round it up into the next second.
pub(in crate::store) fn local(column: &str) -> String {
    format!(
        "CASE WHEN {column} GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]\
         T[0-9][0-9]:[0-9][0-9]:[0-9][0-9]*Z' \
         THEN strftime('%Y-%m-%d %H:%M:%S', substr({column}, 1, 19), \
         (SELECT z.seconds FROM _time_zone_offsets z WHERE z.from_at <= {column} \
         ORDER BY z.from_at DESC LIMIT 1) || ' seconds') ELSE {column} END"
    )
}

/// Text that is a number as a number.
fn number(column: &str) -> String {
    format!(
        "CASE WHEN typeof({column}) = 'text' AND {column} GLOB '*[0-9]*' \
         AND {column} NOT GLOB '*[^-0-9.]*' \
         AND {column} NOT GLOB '?*-*' \
         AND {column} NOT GLOB '*.*.*' \
         THEN CAST({column} AS NUMERIC) ELSE {column} END"
    )
}
