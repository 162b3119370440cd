//! Values in forms that a shop chose: each is counted, and a number says what could not be read.

use jiff::Timestamp;
use jiff::civil::date;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use shopmirror::api::decode;
use shopmirror::config::Range;
use shopmirror::report::{self, Answer, Question};
use shopmirror::store::{FieldSource, FieldStatus, Reader, Store, rebuild};
use shopmirror_core::reading::{ReadSettings, Rule};
use shopmirror_core::record::{PollerId, Route};

use super::store_page;

const NOW: &str = "2026-11-27T12:00:00Z";

/// A store in a folder of its own, read at noon of 27 November 2026.
struct Shop {
    dir: tempfile::TempDir,
    store: Store,
}

impl Shop {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("mirror.db")).unwrap();
        Self { dir, store }
    }

    /// One whole list, the oldest record first.
    async fn shows(&self, route: Route, records: &[Value]) {
        self.shows_at(NOW, route, records).await;
    }

    async fn shows_at(&self, at: &str, route: Route, records: &[Value]) {
        let newest_first: Vec<&Value> = records.iter().rev().collect();
        let page = decode(serde_json::to_vec(&newest_first).unwrap()).unwrap();
        let poller = PollerId {
            route,
            business: None,
        };
        store_page(&self.store, poller, page, at.parse().unwrap(), 100, None).await;
    }

    async fn reread(&self) {
        while self.store.reread_step().await.unwrap() {}
    }

    fn reader(&self) -> Reader {
        Reader::open(&self.dir.path().join("mirror.db")).unwrap()
    }

    fn answer(&self, name: &str, set: &[(&str, &str)]) -> Answer {
        let report = report::built_in();
        let report = report.iter().find(|report| report.name == name).unwrap();
        let mut question = Question {
            from: Some(date(2026, 11, 27)),
            to: Some(date(2026, 11, 27)),
            ..Question::default()
        };
        for (key, value) in set {
            question.set.push(((*key).to_owned(), (*value).to_owned()));
        }
        let now: Timestamp = NOW.parse().unwrap();
        report::answer(&mut self.reader(), report, &question, &TimeZone::UTC, now).unwrap()
    }

    /// The texts of the first row, and the notes but the last one, which says how complete it is.
    fn shown(&self, name: &str, set: &[(&str, &str)]) -> (String, Vec<String>) {
        let answer = self.answer(name, set);
        let row = match answer.rows.first() {
            Some(row) => answer.shown(row).collect::<Vec<_>>().join(" | "),
            None => "no row".to_owned(),
        };
        let mut notes = answer.notes;
        notes.pop();
        (row, notes)
    }

    /// The derived column of each record of a route, by id.
    fn column(&self, route: &str, column: &str) -> Vec<Option<String>> {
        let path = self.dir.path().join("mirror.db");
        let tool = rusqlite::Connection::open(path).unwrap();
        let sql =
            format!("SELECT CAST({column} AS TEXT) FROM {route} ORDER BY CAST(id AS INTEGER)");
        let mut statement = tool.prepare(&sql).unwrap();
        let values = statement.query_map([], |row| row.get(0)).unwrap();
        values.collect::<rusqlite::Result<_>>().unwrap()
    }

    async fn field(&self, route: Route, name: &str) -> Option<FieldStatus> {
        let statuses = self.store.read(Reader::field_statuses).await.unwrap();
        statuses
            .into_iter()
            .find(|field| field.route == route && field.field == name)
    }
}

fn payment(id: i64, amount: &Value) -> Value {
    json!({"id": id, "created_at": "2026-11-27T10:00:00.000000Z", "amount": amount})
}

fn lead(id: i64, due: &str) -> Value {
    json!({
        "id": id, "name": format!("N{id}"), "status": "New", "status_stage": "open",
        "created_at": "2026-11-01T10:00:00.000000Z", "next_follow_up": due,
    })
}

fn job(id: i64, more: &Value) -> Value {
    let mut job = json!({
        "id": id, "job_number": format!("R-{id}"), "customer_name": "Ann", "status": "In repair",
        "status_stage": "open", "created_at": "2026-11-20T10:00:00.000000Z", "assigned_to": "Bo",
        "mobile_number": "1", "device_brand": "Acme", "estimated_delivery": null,
        "total_amount": 0, "paid_amount": 0,
    });
    for (name, value) in more.as_object().unwrap() {
        job[name] = value.clone();
    }
    job
}

#[tokio::test]
async fn payments_are_counted_whatever_their_amounts_are() {
    let shop = Shop::new();
    let mut without = payment(4, &Value::Null);
    without.as_object_mut().unwrap().remove("amount");
    let five = [
        payment(1, &json!(10)),
        payment(2, &json!(7)),
        payment(3, &Value::Null),
        without,
        payment(5, &json!("12,50")),
    ];
    // A first page of five may be all that a server serves.
    shop.shows(Route::Payments, &[]).await;
    shop.shows(Route::Payments, &five).await;
    let (row, notes) = shop.shown("payments", &[]);
    assert_eq!(
        row,
        "2026-11-27 | 3 to 5 | ≥ 29.50 | 0 to 2 | ≥ 0.00 | about 29.50"
    );
    let note = "2 of these payments have no amount that can be read and are in no sum; they may be \
                refunds: payment 4";
    assert_eq!(notes, [note]);
    let total = shop
        .answer("payments", &[])
        .shown_totals()
        .unwrap()
        .join(" | ");
    assert_eq!(
        total,
        "Total | 3 to 5 | ≥ 29.50 | 0 to 2 | ≥ 0.00 | about 29.50"
    );
}

#[tokio::test]
async fn an_amount_with_two_positive_readings_makes_the_sum_at_least() {
    let shop = Shop::new();
    shop.shows(
        Route::Payments,
        &[payment(1, &json!(10)), payment(2, &json!("1.234"))],
    )
    .await;
    let (row, notes) = shop.shown("payments", &[]);
    assert_eq!(row, "2026-11-27 | 2 | ≥ 10.00 | 0 | 0.00 | ≥ 10.00");
    assert_eq!(notes.len(), 1);
    let refund = [payment(1, &json!(10)), payment(2, &json!("(1.234)"))];
    shop.shows(Route::Payments, &refund).await;
    let (row, _) = shop.shown("payments", &[]);
    assert_eq!(row, "2026-11-27 | 1 | 10.00 | 1 | ≥ 0.00 | ≤ 10.00");
}

#[tokio::test]
async fn follow_ups_in_the_shops_own_format_are_due() {
    let shop = Shop::new();
    let three = [
        lead(1, "25/11/2026"),
        lead(2, "25/11/2026 10:30"),
        lead(3, "25.11.2026"),
    ];
    shop.shows(Route::Leads, &three).await;
    let answer = shop.answer("follow-ups", &[]);
    assert_eq!(answer.rows.len(), 3);
    let (row, notes) = shop.shown("follow-ups", &[]);
    assert_eq!(row, "1 | N1 | New | 2026-11-25 | 2");
    assert!(notes.is_empty(), "{notes:?}");
    shop.shows(
        Route::Leads,
        &[three[0].clone(), lead(4, "05/11/2026"), lead(5, "soon")],
    )
    .await;
    let (_, notes) = shop.shown("follow-ups", &[]);
    let note =
        "2 open leads have a next_follow_up that cannot be read and are not in this list: lead 5";
    assert!(notes.contains(&note.to_owned()), "{notes:?}");
}

#[tokio::test]
async fn the_reading_of_a_field_is_found_by_five_values_kept_and_withdrawn() {
    let shop = Shop::new();
    let mut leads = vec![lead(1, "05/11/2026")];
    for id in 2..=5 {
        leads.push(lead(id, "27/11/2026"));
    }
    shop.shows(Route::Leads, &leads).await;
    assert_eq!(shop.column("leads", "_next_follow_up")[0], None);
    let status = shop.field(Route::Leads, "next_follow_up").await.unwrap();
    assert_eq!(
        (status.unreadable, status.rules.len()),
        (1, 0),
        "four are too few"
    );
    let four = shop.column("leads", "_unreadable")[0].clone();
    assert_eq!(four.as_deref(), Some(r#"["next_follow_up"]"#));

    leads.push(lead(6, "28/11/2026"));
    shop.shows(Route::Leads, &leads).await;
    assert_eq!(shop.reader().rereads().unwrap().len(), 1);
    let (_, notes) = shop.shown("follow-ups", &[]);
    assert!(
        notes[0].contains("are being read again (0 of 5 records)"),
        "{notes:?}"
    );
    shop.reread().await;
    let november = Some("2026-11-05".to_owned());
    assert_eq!(shop.column("leads", "_next_follow_up")[0], november);
    let status = shop.field(Route::Leads, "next_follow_up").await.unwrap();
    assert_eq!(status.rules[0].rule, Rule::DayFirst.as_str());
    assert_eq!(status.rules[0].found_seq, Some(6));
    assert_eq!(status.unreadable, 0);

    // The mirror that is made again from the log uses the same rule.
    let before = shop.column("leads", "_next_follow_up");
    shop.store.close().await.unwrap();
    let path = shop.dir.path().join("mirror.db");
    rebuild(&path, jiff::Timestamp::UNIX_EPOCH, &mut |_, _| ()).unwrap();
    assert_eq!(shop.column("leads", "_next_follow_up"), before);
    let shop = Shop {
        store: Store::open(&path).unwrap(),
        dir: shop.dir,
    };

    // One value that allows only the other reading withdraws it; without that value it is back.
    leads[5] = lead(6, "11/28/2026");
    shop.shows(Route::Leads, &leads).await;
    shop.reread().await;
    assert_eq!(shop.column("leads", "_next_follow_up")[0], None);
    leads[5] = lead(6, "28/11/2026");
    // An earlier version is a change when two pages show it.
    shop.shows(Route::Leads, &leads).await;
    shop.shows(Route::Leads, &leads).await;
    shop.reread().await;
    assert_eq!(shop.column("leads", "_next_follow_up")[0], november);
}

#[tokio::test]
async fn a_setting_ends_the_doubt_at_once_and_the_doubt_returns_with_it() {
    let shop = Shop::new();
    shop.shows(Route::Leads, &[lead(1, "05/11/2026")]).await;
    shop.shows(Route::Payments, &[payment(1, &json!("1.234"))])
        .await;
    let settings = ReadSettings {
        time_zone: "UTC".to_owned(),
        date_formats: [("next_follow_up".to_owned(), "%m/%d/%Y".parse().unwrap())].into(),
        decimals: Some(Rule::DecimalComma),
        ..ReadSettings::default()
    };
    shop.store.configure_reading(settings).await.unwrap();
    shop.reread().await;
    let may = Some("2026-05-11".to_owned());
    assert_eq!(shop.column("leads", "_next_follow_up")[0], may);
    assert_eq!(
        shop.column("payments", "_amount")[0].as_deref(),
        Some("1234.0")
    );
    let status = shop.field(Route::Payments, "amount").await.unwrap();
    assert_eq!(status.rules[0].found_seq, None, "it is configured");
    shop.store
        .configure_reading(ReadSettings::default())
        .await
        .unwrap();
    shop.reread().await;
    assert_eq!(shop.column("leads", "_next_follow_up")[0], None);
    assert_eq!(shop.column("payments", "_amount")[0], None);
}

#[tokio::test]
async fn midnights_with_an_offset_are_dates_until_another_time_shows_moments() {
    let shop = Shop::new();
    let settings = ReadSettings {
        time_zone: "America/New_York".to_owned(),
        ..ReadSettings::default()
    };
    shop.store.configure_reading(settings).await.unwrap();
    let midnight = "2026-11-27T00:00:00.000000Z";
    let mut leads: Vec<Value> = (1..=4).map(|id| lead(id, midnight)).collect();
    shop.shows(Route::Leads, &leads).await;
    assert_eq!(shop.column("leads", "_next_follow_up")[0], None);
    leads.push(lead(5, midnight));
    shop.shows(Route::Leads, &leads).await;
    shop.reread().await;
    let days = |day: &str| vec![Some(day.to_owned()); 5];
    assert_eq!(shop.column("leads", "_next_follow_up"), days("2026-11-27"));
    leads.push(lead(6, "2026-11-26T23:30:00Z"));
    shop.shows(Route::Leads, &leads).await;
    shop.reread().await;
    assert_eq!(
        shop.column("leads", "_next_follow_up")[..5],
        days("2026-11-26")
    );
}

#[tokio::test]
async fn times_that_cannot_be_read_are_in_no_period_and_each_number_says_so() {
    let shop = Shop::new();
    for route in Route::ALL {
        shop.shows(route, &[]).await;
    }
    let mut jobs = vec![job(1, &json!({"created_at": "2026-11-27T09:00:00Z"}))];
    jobs.push(job(2, &json!({"created_at": 1_795_771_815})));
    jobs.push(job(3, &json!({"created_at": "2026-11-27 10:00:00"})));
    shop.shows(Route::Jobs, &jobs).await;
    let (row, _) = shop.shown("intake", &[]);
    assert!(row.starts_with("2026-11-27 | 3 | "), "{row}");
    jobs.push(job(4, &json!({"created_at": "yesterday"})));
    shop.shows(Route::Jobs, &jobs).await;
    for (name, wanted) in [
        ("intake", "2026-11-27 | ≥ 3 | "),
        ("busiest-hours", "9 | ≥ 2 | "),
        ("technicians", "Bo | 4 | ≥ 3 | 0"),
        ("customers", "2026-11-27 | 0 | ≥ 1"),
    ] {
        let answer = shop.answer(name, &[]);
        let row: Vec<String> = answer.shown(&answer.rows[0]).collect();
        let row = row.join(" | ");
        assert!(row.starts_with(wanted), "{name}: {row}");
    }
    let (row, notes) = shop.shown("open-repairs", &[]);
    assert_eq!(row, "open | In repair | 4 | ≥ 3 | ≥ 0 | ≥ 0 | ≥ 0 | ≥ 0.1");
    assert!(
        notes[0].contains("has no time of creation that can be read"),
        "{notes:?}"
    );
    assert!(notes[0].ends_with("repair 4"), "{notes:?}");
    let totals = shop.answer("open-repairs", &[]).shown_totals().unwrap();
    assert_eq!(
        totals.join(" | "),
        "Total |  | 4 | ≥ 3 | ≥ 0 | ≥ 0 | ≥ 0 | "
    );
}

#[tokio::test]
async fn a_delivery_date_or_a_total_that_cannot_be_read_is_said_where_it_is_missing() {
    let shop = Shop::new();
    for route in [Route::JobStatusChanges, Route::Payments] {
        shop.shows(route, &[]).await;
    }
    let jobs = [
        job(
            1,
            &json!({"estimated_delivery": "2026-11-20", "total_amount": 100, "paid_amount": 40}),
        ),
        job(
            2,
            &json!({"estimated_delivery": "next week", "total_amount": "1.234"}),
        ),
        job(
            3,
            &json!({"estimated_delivery": "2026-12-20", "total_amount": "open"}),
        ),
    ];
    shop.shows(Route::Jobs, &jobs).await;
    let late = shop.answer("repairs", &[("late", "1")]);
    assert_eq!(late.rows.len(), 1);
    let note = "1 open repair has an estimated_delivery that cannot be read, so that nothing says \
                if it is late: repair 2";
    assert!(late.notes.contains(&note.to_owned()), "{:?}", late.notes);
    let owed = shop.answer("outstanding", &[]);
    assert_eq!(owed.rows.len(), 3, "those are counted");
    let first: Vec<String> = owed.shown(&owed.rows[0]).collect();
    assert_eq!(first[3..6], ["100.00", "40.00", "60.00"]);
    let second: Vec<String> = owed.shown(&owed.rows[1]).collect();
    assert_eq!(second[3..6], ["unknown", "0.00", "unknown"]);
    let note =
        "2 of these repairs have a total_amount that cannot be read and is in no sum: repair 3";
    assert!(owed.notes.contains(&note.to_owned()), "{:?}", owed.notes);
    let home = report::home(
        &mut shop.reader(),
        Range::Today,
        &[],
        &TimeZone::UTC,
        NOW.parse().unwrap(),
    )
    .unwrap();
    let overdue = report::shown(&home.now.overdue.cell.value, None);
    assert_eq!(
        (overdue.as_str(), home.now.overdue.cell.exactness),
        ("1", report::Exactness::AtLeast)
    );
    assert!(
        home.notes
            .contains("the estimated_delivery of 1 open repair cannot be read: repair 2")
    );
}

#[tokio::test]
async fn a_field_that_stopped_coming_is_a_reason_until_it_comes_or_is_named() {
    let shop = Shop::new();
    let mut payments = vec![payment(1, &json!(10))];
    let renamed =
        |id: i64| json!({"id": id, "created_at": "2026-11-27T10:00:00.000000Z", "sum": 5});
    for id in 2..=6 {
        payments.push(renamed(id));
    }
    shop.shows(Route::Payments, &payments).await;
    let status = shop.field(Route::Payments, "amount").await.unwrap();
    assert!(status.has_stopped);
    let now: Timestamp = NOW.parse().unwrap();
    let reasons = shopmirror::status::WorkspaceStatus::stored(&shop.reader(), now).unwrap();
    assert!(reasons.fields.iter().any(|field| field.has_stopped));

    let fields = [("amount".to_owned(), "sum".to_owned())].into();
    let settings = ReadSettings {
        fields: [(Route::Payments, fields)].into(),
        ..ReadSettings::default()
    };
    shop.store.configure_reading(settings).await.unwrap();
    shop.reread().await;
    let named = shop.field(Route::Payments, "amount").await.unwrap();
    let source = FieldSource {
        name: Some("sum".to_owned()),
        is_configured: true,
    };
    assert_eq!((named.source, named.has_stopped), (Some(source), false));
    let (row, _) = shop.shown("payments", &[]);
    assert_eq!(
        row,
        "2026-11-27 | 5 to 6 | ≥ 25.00 | 0 to 1 | ≥ 0.00 | about 25.00"
    );

    shop.store
        .configure_reading(ReadSettings::default())
        .await
        .unwrap();
    shop.reread().await;
    payments.push(payment(7, &json!(1)));
    shop.shows(Route::Payments, &payments).await;
    assert!(
        shop.field(Route::Payments, "amount").await.is_none(),
        "it comes again"
    );
}

#[tokio::test]
async fn a_shop_without_leads_or_customers_gets_zeros() {
    let shop = Shop::new();
    for route in Route::ALL {
        shop.shows(route, &[]).await;
    }
    for report in report::built_in() {
        shop.answer(&report.name, &[]);
    }
    let (row, _) = shop.shown("intake", &[]);
    assert_eq!(row, "2026-11-27 | 0 | 0 | 0");
    shop.shows(
        Route::Jobs,
        &[job(1, &json!({"created_at": "2026-11-27T09:00:00Z"}))],
    )
    .await;
    let (row, _) = shop.shown("intake", &[]);
    assert_eq!(row, "2026-11-27 | 1 | 0 | 0");
    let (row, _) = shop.shown("technicians", &[]);
    assert_eq!(row, "Bo | 1 | 1 | 0");
    let (row, _) = shop.shown("leads", &[]);
    assert_eq!(row, "2026-11-27 | 0 | 0 | ");
}

#[tokio::test]
async fn a_status_change_without_a_time_leaves_the_state_of_its_repair_in_doubt() {
    let shop = Shop::new();
    shop.shows(Route::Payments, &[]).await;
    shop.shows_at(
        "2026-11-27T11:58:00Z",
        Route::Jobs,
        &[job(1, &json!({})), job(2, &json!({}))],
    )
    .await;
    let change = |id: Value, at: &str| {
        json!({"id": id, "job_number": "R-1", "status": "Done", "status_stage": "completed",
            "created_at": at})
    };
    let first = change(json!(1), "2026-11-27T09:00:00Z");
    // It was made later, because its id is higher.
    let later = change(json!(2), "today");
    shop.shows(Route::JobStatusChanges, &[first.clone(), later.clone()])
        .await;
    let (row, notes) = shop.shown("open-repairs", &[]);
    assert!(row.starts_with("open | In repair | 1 | "), "{row}");
    assert!(notes.is_empty(), "{notes:?}");
    let changes = [first, later, change(json!("x-3"), "today")];
    shop.shows(Route::JobStatusChanges, &changes).await;
    let (row, notes) = shop.shown("open-repairs", &[]);
    assert!(row.starts_with("open | In repair | about 1 | "), "{row}");
    let note = "1 repair has a status change without a time that can be read, and may be in another \
                state: repair 1";
    assert!(notes.contains(&note.to_owned()), "{notes:?}");
    let (row, _) = shop.shown("technicians", &[]);
    assert_eq!(row, "Bo | about 1 | 0 | ≥ 1");
}

#[tokio::test]
async fn a_repair_without_a_total_makes_the_sums_of_what_is_owed_at_least() {
    let shop = Shop::new();
    for route in [Route::JobStatusChanges, Route::Payments] {
        shop.shows(route, &[]).await;
    }
    let jobs = [
        job(1, &json!({"total_amount": 100, "paid_amount": 40})),
        job(2, &json!({"total_amount": null})),
    ];
    shop.shows(Route::Jobs, &jobs).await;
    let owed = shop.answer("outstanding", &[]);
    assert_eq!(owed.rows.len(), 1);
    let totals = owed.shown_totals().unwrap();
    assert_eq!(totals[3..6], ["≥ 100.00", "≥ 40.00", "≥ 60.00"]);
    let note = "1 more repair has no total_amount, so nothing says what it owes: repair 2";
    assert!(owed.notes.contains(&note.to_owned()), "{:?}", owed.notes);
}
