//! The rows of each built-in report, computed from the records alone: with dates of a calendar,
//! without SQL, and without the code of the program.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::ToSpan;
use jiff::civil::{Date, Weekday};
use serde_json::{Value, json};
use shopmirror::config::CountedBy;

use super::truth::{Shop, at};

/// What a report is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) from: Date,
    pub(super) to: Date,
    pub(super) by: CountedBy,
    pub(super) business: Option<&'static str>,
}

impl Asked {
    fn has(&self, record: &Value) -> bool {
        self.business
            .is_none_or(|business| record["_business"] == business)
    }

    fn covers(&self, shop: &Shop, record: &Value) -> bool {
        self.has(record) && (self.from..=self.to).contains(&shop.day(record))
    }

    /// The records of the business that were created in the period.
    fn during<'s>(&self, shop: &'s Shop, route: &str) -> Vec<&'s Value> {
        shop.all(route)
            .iter()
            .filter(|record| self.covers(shop, record))
            .collect()
    }

    /// The records of the business whose stage is not `completed`.
    fn open<'s>(&self, shop: &'s Shop, route: &str) -> Vec<&'s Value> {
        let all = shop.all(route).iter().filter(|record| self.has(record));
        all.filter(|record| record["status_stage"] != "completed")
            .collect()
    }

    /// The name of the period in which a day is counted.
    fn name(&self, day: Date) -> String {
        match self.by {
            CountedBy::Day => day.to_string(),
            CountedBy::Week => {
                let mut monday = day;
                while monday.weekday() != Weekday::Monday {
                    monday = monday.yesterday().unwrap();
                }
                monday.to_string()
            }
            CountedBy::Month => day.to_string()[..7].to_owned(),
        }
    }

    /// Every period, with a row that counts nothing yet.
    fn periods<T: Default>(&self) -> BTreeMap<String, T> {
        let days = self.from.series(1.day()).take_while(|day| *day <= self.to);
        days.map(|day| (self.name(day), T::default())).collect()
    }
}

pub(super) fn expected(name: &str, shop: &Shop, asked: &Asked) -> Vec<Value> {
    match name {
        "intake" => intake(shop, asked),
        "sources" => sources(shop, asked),
        "leads" => leads(shop, asked),
        "follow-ups" => follow_ups(shop, asked),
        "open-repairs" => open_repairs(shop, asked),
        "repairs" => repairs(shop, asked),
        "turnaround-by-brand" => turnaround(shop, asked, "device_brand", "brand"),
        "turnaround-by-person" => turnaround(shop, asked, "assigned_to", "person"),
        "backlog" => backlog(shop, asked),
        "rework" => rework(shop, asked),
        "time-to-repair" => time_to_repair(shop, asked),
        "average-repair" => average(shop, asked),
        "money-by-brand" => billed(shop, asked, "brand", |done| text(done.job, "device_brand")),
        "money-by-device" => billed(shop, asked, "device", |done| text(done.job, "device_model")),
        "money-by-person" => billed(shop, asked, "person", |done| done.by),
        "till-by-method" => till_by_method(shop, asked),
        "technicians" => technicians(shop, asked),
        "payments" => payments(shop, asked),
        "outstanding" => outstanding(shop, asked),
        "outsourced" => outsourced(shop, asked),
        "busiest-hours" => busiest_hours(shop, asked),
        "customers" => customers(shop, asked),
        "mirror" => mirror(shop, asked),
        other => panic!("the report {other} is not computed here: add it"),
    }
}

pub(super) fn text<'v>(record: &'v Value, field: &str) -> &'v str {
    record[field].as_str().unwrap_or("(none)")
}

fn tenth(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

fn oldest(ages: &[f64]) -> f64 {
    tenth(ages.iter().fold(0.0_f64, |a, b| a.max(*b)))
}

fn intake(shop: &Shop, asked: &Asked) -> Vec<Value> {
    let mut periods: BTreeMap<String, [u32; 3]> = asked.periods();
    for (place, route) in ["jobs", "leads", "customers"].into_iter().enumerate() {
        for record in asked.during(shop, route) {
            periods.get_mut(&asked.name(shop.day(record))).unwrap()[place] += 1;
        }
    }
    let row = |(period, [jobs, leads, customers]): (String, [u32; 3])| json!({"period": period, "jobs": jobs, "leads": leads, "customers": customers});
    periods.into_iter().map(row).collect()
}

fn sources(shop: &Shop, asked: &Asked) -> Vec<Value> {
    let mut sources: BTreeMap<&str, [u32; 3]> = BTreeMap::new();
    for lead in asked.during(shop, "leads") {
        let source = sources.entry(text(lead, "source")).or_default();
        source[0] += 1;
        source[1] += u32::from(lead["status_stage"] == "completed");
        source[2] += u32::from(lead["status_stage"].is_null());
    }
    let mut rows: Vec<_> = sources.into_iter().collect();
    rows.sort_by_key(|(name, [leads, ..])| (Reverse(*leads), *name));
    let row = |(source, [leads, closed, none]): (&str, [u32; 3])| json!({"source": source, "leads": leads, "closed": closed, "no_stage": none});
    rows.into_iter().map(row).collect()
}

fn leads(shop: &Shop, asked: &Asked) -> Vec<Value> {
    // When a customer with this number or address came last, whatever business it came to.
    let mut came: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for customer in shop.all("customers") {
        for field in ["mobile_number", "email"] {
            let Some(of) = customer[field].as_str() else {
                continue;
            };
            let last = came.entry((field, of)).or_default();
            *last = (*last).max(text(customer, "created_at"));
        }
    }
    let is_converted = |lead: &Value| {
        let made = text(lead, "created_at");
        let came = |field| Some(*came.get(&(field, lead[field].as_str()?))? >= made);
        ["mobile_number", "email"]
            .into_iter()
            .any(|field| came(field) == Some(true))
    };
    let mut periods: BTreeMap<String, (u32, u32)> = asked.periods();
    for lead in asked.during(shop, "leads") {
        let period = periods.entry(asked.name(shop.day(lead))).or_default();
        period.0 += 1;
        period.1 += u32::from(is_converted(lead));
    }
    let row = |(period, (leads, converted)): (String, (u32, u32))| {
        let percent = (leads > 0).then(|| tenth(f64::from(converted) * 100.0 / f64::from(leads)));
        json!({"period": period, "leads": leads, "converted": converted, "converted_percent": percent})
    };
    periods.into_iter().map(row).collect()
}

fn follow_ups(shop: &Shop, asked: &Asked) -> Vec<Value> {
    let today = shop.days().1;
    let open = shop.all("leads").iter();
    let mut due: Vec<(Date, &Value)> = open
        .filter(|lead| asked.has(lead) && lead["status_stage"] == "open")
        .filter_map(|lead| Some((lead["next_follow_up"].as_str()?.parse().ok()?, lead)))
        .filter(|(day, _)| *day <= today)
        .collect();
    due.sort_by_key(|(day, lead)| (Reverse(*day), text(lead, "name").to_owned()));
    let row = |(day, lead): (Date, &Value)| {
        json!({"lead_id": lead["id"].to_string(), "name": lead["name"], "status": lead["status"],
            "due": day.to_string(), "days_late": (today - day).get_days()})
    };
    due.into_iter().map(row).collect()
}

fn open_repairs(shop: &Shop, asked: &Asked) -> Vec<Value> {
    let mut groups: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    for job in asked.open(shop, "jobs") {
        let group = (text(job, "status_stage"), text(job, "status"));
        groups.entry(group).or_default().push(shop.age(job));
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|((_, status), ages)| (Reverse(ages.len()), *status));
    let row = |((stage, status), ages): ((&str, &str), Vec<f64>)| {
        let between = |low: f64, high: f64| {
            ages.iter()
                .filter(|age| **age >= low && **age < high)
                .count()
        };
        json!({"stage": stage, "status": status, "open": ages.len(), "under_1_day": between(0.0, 1.0),
            "from_1_to_3_days": between(1.0, 3.0), "from_3_to_7_days": between(3.0, 7.0),
            "over_7_days": between(7.0, 1e9), "oldest_days": oldest(&ages)})
    };
    groups.into_iter().map(row).collect()
}

fn repairs(shop: &Shop, asked: &Asked) -> Vec<Value> {
    let today = shop.days().1;
    let mut open = asked.open(shop, "jobs");
    open.sort_by_key(|job| (text(job, "created_at"), job["id"].to_string()));
    let of = |record: &Value| (record["job_number"].clone(), record["_business"].clone());
    let row = |job: &Value| {
        let changes = shop
            .all("job_status_changes")
            .iter()
            .filter(|change| of(change) == of(job));
        let days_in_status = changes.map(|change| shop.age(change) as i64).min();
        let due = job["estimated_delivery"]
            .as_str()
            .and_then(|due| due[..10].parse::<Date>().ok());
        let days_late = due
            .map(|due| (today - due).get_days())
            .filter(|days| *days > 0);
        json!({"job_id": job["id"].to_string(), "job_number": job["job_number"],
            "customer_name": job["customer_name"], "status": job["status"],
            "days_in_status": days_in_status.unwrap_or(shop.age(job) as i64),
            "days_open": shop.age(job) as i64, "due": job["estimated_delivery"], "days_late": days_late})
    };
    open.into_iter().map(row).collect()
}

/// Days that each repair completed in the period was open, by a field of the repair.
fn turnaround(shop: &Shop, asked: &Asked, field: &str, name: &str) -> Vec<Value> {
    let mut groups: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for done in completed(shop, asked) {
        let group = match field {
            "assigned_to" => done.by,
            _ => text(done.job, field),
        };
        let days = groups.entry(group).or_default();
        days.push(done.open_seconds / 86_400.0);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(name, days)| (Reverse(days.len()), *name));
    let row = |(group, days): (&str, Vec<f64>)| {
        let n = days.len();
        let (median, p90) = typical(days);
        json!({name: group, "repairs": n, "median_days": median, "p90_days": p90})
    };
    groups.into_iter().map(row).collect()
}

/// The median, and the smallest value that nine of ten do not exceed.
fn typical(mut days: Vec<f64>) -> (f64, f64) {
    days.sort_by(f64::total_cmp);
    let n = days.len();
    let median = if n % 2 == 1 {
        days[n / 2]
    } else {
        f64::midpoint(days[n / 2 - 1], days[n / 2])
    };
    (median, days[(n * 9).div_ceil(10) - 1])
}

fn time_to_repair(shop: &Shop, asked: &Asked) -> Vec<Value> {
    let mut periods: BTreeMap<String, Vec<f64>> = asked.periods();
    for done in completed(shop, asked) {
        let period = periods.get_mut(&asked.name(shop.day(done.change)));
        period.unwrap().push(done.open_seconds / 86_400.0);
    }
    let row = |(period, days): (String, Vec<f64>)| {
        let n = days.len();
        let typical = (n > 0).then(|| typical(days));
        json!({"period": period, "repairs": n, "median_days": typical.map(|it| it.0),
            "p90_days": typical.map(|it| it.1)})
    };
    periods.into_iter().map(row).collect()
}

fn average(shop: &Shop, asked: &Asked) -> Vec<Value> {
    let mut periods: BTreeMap<String, (u32, i64)> = asked.periods();
    for done in completed(shop, asked) {
        let period = periods.get_mut(&asked.name(shop.day(done.change))).unwrap();
        period.0 += 1;
        period.1 += cents(&done.job["total_amount"]);
    }
    let row = |(period, (repairs, sum)): (String, (u32, i64))| {
        let average = (repairs > 0).then(|| units(sum) / f64::from(repairs));
        json!({"period": period, "repairs": repairs, "billed": units(sum), "average": average})
    };
    periods.into_iter().map(row).collect()
}

/// What the completed repairs cost, by a name.
fn billed<'s>(
    shop: &'s Shop,
    asked: &Asked,
    by: &str,
    name: impl Fn(&Completed<'s>) -> &'s str,
) -> Vec<Value> {
    let mut groups: BTreeMap<&str, (u32, i64)> = BTreeMap::new();
    for done in completed(shop, asked) {
        let group = groups.entry(name(&done)).or_default();
        group.0 += 1;
        group.1 += cents(&done.job["total_amount"]);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(name, (_, sum))| (Reverse(*sum), *name));
    let row = |(name, (repairs, sum)): (&str, (u32, i64))| json!({by: name, "repairs": repairs, "billed": units(sum)});
    groups.into_iter().map(row).collect()
}

fn till_by_method(shop: &Shop, asked: &Asked) -> Vec<Value> {
    let mut methods: BTreeMap<&str, [i64; 4]> = BTreeMap::new();
    for payment in asked.during(shop, "payments") {
        let cents = cents(&payment["amount"]);
        let method = methods.entry(text(payment, "payment_mode")).or_default();
        let place = if cents < 0 { 2 } else { 0 };
        method[place] += 1;
        method[place + 1] += cents.abs();
    }
    let mut methods: Vec<_> = methods.into_iter().collect();
    methods.sort_by_key(|(name, [_, received, _, refunded])| (Reverse(received - refunded), *name));
    let row = |(method, [payments, received, refunds, refunded]): (&str, [i64; 4])| {
        json!({"method": method, "payments": payments, "received": units(received), "refunds": refunds,
            "refunded": units(refunded), "net": units(received - refunded)})
    };
    methods.into_iter().map(row).collect()
}

/// What names a repair in its own record and in those of its changes: its number and its business.
fn number_of(record: &Value) -> (&str, &str) {
    (text(record, "job_number"), text(record, "_business"))
}

/// The status changes of each repair, the first first.
fn changes_of(shop: &Shop) -> BTreeMap<(&str, &str), Vec<&Value>> {
    let mut all: BTreeMap<(&str, &str), Vec<&Value>> = BTreeMap::new();
    for change in shop.all("job_status_changes") {
        all.entry(number_of(change)).or_default().push(change);
    }
    for changes in all.values_mut() {
        changes.sort_by_key(|change| text(change, "created_at"));
    }
    all
}

fn rework(shop: &Shop, asked: &Asked) -> Vec<Value> {
    let mut periods: BTreeMap<String, (u32, u32)> = asked.periods();
    let all = changes_of(shop);
    for job in shop.all("jobs").iter().filter(|job| asked.has(job)) {
        let changes = all.get(&number_of(job)).cloned().unwrap_or_default();
        let mut since = changes.into_iter();
        let first = since.find(|change| change["status_stage"] == "completed");
        let Some(day) = first.map(|change| shop.day(change)) else {
            continue;
        };
        if (asked.from..=asked.to).contains(&day) {
            let period = periods.get_mut(&asked.name(day)).unwrap();
            period.0 += 1;
            // Some are open again without a status change that says so.
            let is_open = job["status_stage"] != "completed";
            let is_reopened = since.any(|change| change["status_stage"] != "completed");
            period.1 += u32::from(is_open || is_reopened);
        }
    }
    let row = |(period, (completed, reopened)): (String, (u32, u32))| {
        let percent = 100.0 * f64::from(reopened) / f64::from(completed);
        let percent = (completed > 0).then(|| tenth(percent));
        json!({"period": period, "completed": completed, "reopened": reopened,
            "reopened_percent": percent})
    };
    periods.into_iter().map(row).collect()
}

fn backlog(shop: &Shop, asked: &Asked) -> Vec<Value> {
    let mut periods: BTreeMap<String, u32> = asked.periods();
    let all = changes_of(shop);
    for day in asked
        .from
        .series(1.day())
        .take_while(|day| *day <= asked.to)
    {
        let end = day.tomorrow().unwrap();
        let end = end.to_zoned_datetime(shop.zone.clone()).unwrap();
        let end = end.timestamp().min(shop.now);
        let is_open = |job: &&Value| {
            let changes = all.get(&number_of(job)).cloned().unwrap_or_default();
            let mut last = changes.into_iter().rfind(|change| at(change) < end);
            if end == shop.now {
                last = Some(job);
            }
            asked.has(job)
                && at(job) < end
                && last.is_none_or(|record| record["status_stage"] != "completed")
        };
        let open = shop.all("jobs").iter().filter(is_open).count();
        // The last day of a period counts.
        periods.insert(asked.name(day), open as u32);
    }
    let row = |(period, open): (String, u32)| json!({"period": period, "open": open});
    periods.into_iter().map(row).collect()
}

/// A repair that is completed.
struct Completed<'s> {
    job: &'s Value,
    /// The status change that completed it.
    change: &'s Value,
    /// For how many seconds it was open.
    open_seconds: f64,
    /// Who completed it.
    by: &'s str,
}

/// The repairs that are completed and were so in the period.
fn completed<'s>(shop: &'s Shop, asked: &Asked) -> Vec<Completed<'s>> {
    let jobs = shop.all("jobs").iter().filter(|job| asked.has(job));
    let completed = jobs.filter(|job| job["status_stage"] == "completed");
    let mut found = Vec::new();
    let all = changes_of(shop);
    for job in completed {
        let changes = all.get(&number_of(job)).cloned().unwrap_or_default();
        let (mut open_seconds, mut opened, mut done) = (0.0, Some(at(job)), None);
        for change in changes {
            if change["status_stage"] != "completed" {
                opened = opened.or(Some(at(change)));
                done = None;
            } else if let Some(since) = opened.take() {
                open_seconds += at(change).duration_since(since).as_secs_f64().max(0.0);
                done = Some(change);
            }
        }
        if let Some(change) = done
            && (asked.from..=asked.to).contains(&shop.day(change))
        {
            found.push(Completed {
                job,
                change,
                open_seconds,
                by: text(change, "changed_by"),
            });
        }
    }
    found
}

fn technicians(shop: &Shop, asked: &Asked) -> Vec<Value> {
    let name = |job: &Value| {
        job["assigned_to"]
            .as_str()
            .unwrap_or("(not assigned)")
            .to_owned()
    };
    let mut people: BTreeMap<String, [u32; 3]> = BTreeMap::new();
    for job in asked.open(shop, "jobs") {
        people.entry(name(job)).or_default()[0] += 1;
    }
    for job in asked.during(shop, "jobs") {
        people.entry(name(job)).or_default()[1] += 1;
    }
    for done in completed(shop, asked) {
        people.entry(done.by.to_owned()).or_default()[2] += 1;
    }
    let mut rows: Vec<_> = people.into_iter().collect();
    rows.sort_by_key(|(name, [open, ..])| (Reverse(*open), name.clone()));
    let row = |(person, [open, taken, done]): (String, [u32; 3])| json!({"person": person, "open": open, "taken_in": taken, "completed": done});
    rows.into_iter().map(row).collect()
}

/// An amount as JSON text, in cents.
fn cents(amount: &Value) -> i64 {
    let amount = amount.to_string();
    let (whole, part) = amount.split_once('.').unwrap_or((&amount, ""));
    let digits = format!("{}{:0<2}", whole.trim_start_matches('-'), part);
    let cents: i64 = digits.parse().unwrap();
    if amount.starts_with('-') {
        -cents
    } else {
        cents
    }
}

fn units(cents: i64) -> f64 {
    cents as f64 / 100.0
}

fn payments(shop: &Shop, asked: &Asked) -> Vec<Value> {
    let mut periods: BTreeMap<String, [i64; 4]> = asked.periods();
    for payment in asked.during(shop, "payments") {
        let cents = cents(&payment["amount"]);
        let period = periods.get_mut(&asked.name(shop.day(payment))).unwrap();
        let place = if cents < 0 { 2 } else { 0 };
        period[place] += 1;
        period[place + 1] += cents.abs();
    }
    let row = |(period, [payments, received, refunds, refunded]): (String, [i64; 4])| {
        json!({"period": period, "payments": payments, "received": units(received), "refunds": refunds,
            "refunded": units(refunded), "net": units(received - refunded)})
    };
    periods.into_iter().map(row).collect()
}

fn outstanding(shop: &Shop, asked: &Asked) -> Vec<Value> {
    let jobs = shop.all("jobs").iter().filter(|job| asked.has(job));
    let mut owing: Vec<(i64, i64, &Value)> = jobs
        .map(|job| (cents(&job["total_amount"]), cents(&job["paid_amount"]), job))
        .filter(|(total, paid, _)| total > paid)
        .collect();
    owing.sort_by_key(|(total, paid, job)| {
        (Reverse(total - paid), text(job, "created_at").to_owned())
    });
    let days = |job: &Value| shop.age(job) as i64;
    let row = |(total, paid, job): (i64, i64, &Value)| {
        json!({"job_number": job["job_number"], "customer_name": job["customer_name"], "status": job["status"],
            "total": units(total), "paid": units(paid), "outstanding": units(total - paid), "days_old": days(job), "job_id": job["id"].to_string()})
    };
    owing.into_iter().map(row).collect()
}

fn outsourced(shop: &Shop, asked: &Asked) -> Vec<Value> {
    let mut firms: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    // None is known to be overdue, but one that was missed may be.
    let lacks_some = shop.pollers.iter().any(|poller| {
        poller.route == "outsourced_jobs"
            && poller.missing.is_some()
            && asked.business.is_none_or(|asked| asked == poller.business)
    });
    for job in asked.open(shop, "outsourced_jobs") {
        let firm = (text(job, "vendor_name"), text(job, "status_stage"));
        firms.entry(firm).or_default().push(shop.age(job));
    }
    let mut firms: Vec<_> = firms.into_iter().collect();
    firms.sort_by_key(|((name, _), ages)| (Reverse(ages.len()), *name));
    let row = |((vendor, stage), ages): ((&str, &str), Vec<f64>)| {
        let overdue = match ages.iter().filter(|age| **age > OVERDUE).count() {
            0 if lacks_some => Value::Null,
            overdue => overdue.into(),
        };
        json!({"vendor": vendor, "stage": stage, "out": ages.len(), "overdue": overdue, "oldest_days": oldest(&ages)})
    };
    firms.into_iter().map(row).collect()
}

/// The days of `overdue` that the tests set.
pub(super) const OVERDUE: f64 = 2.0;

fn busiest_hours(shop: &Shop, asked: &Asked) -> Vec<Value> {
    let mut hours: BTreeMap<i8, [u32; 7]> = BTreeMap::new();
    for job in asked.during(shop, "jobs") {
        let local = shop.local(job);
        let day = usize::try_from(local.weekday().to_monday_zero_offset()).unwrap();
        hours.entry(local.hour()).or_default()[day] += 1;
    }
    let row = |(hour, jobs): (i8, [u32; 7])| {
        let [mon, tue, wed, thu, fri, sat, sun] = jobs;
        json!({"hour": hour, "repairs": jobs.iter().sum::<u32>(), "mon": mon, "tue": tue,
            "wed": wed, "thu": thu, "fri": fri, "sat": sat, "sun": sun})
    };
    hours.into_iter().map(row).collect()
}

fn customers(shop: &Shop, asked: &Asked) -> Vec<Value> {
    let mut periods: BTreeMap<String, (u32, BTreeSet<&str>)> = asked.periods();
    for customer in asked.during(shop, "customers") {
        periods.get_mut(&asked.name(shop.day(customer))).unwrap().0 += 1;
    }
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    for job in shop.all("jobs") {
        let at = text(job, "created_at");
        let first = first.entry(text(job, "mobile_number")).or_insert(at);
        *first = (*first).min(at);
    }
    for job in asked.during(shop, "jobs") {
        let Some(number) = job["mobile_number"].as_str() else {
            continue;
        };
        if first[number] < text(job, "created_at") {
            periods
                .get_mut(&asked.name(shop.day(job)))
                .unwrap()
                .1
                .insert(number);
        }
    }
    let row = |(period, (new, returned)): (String, (u32, BTreeSet<&str>))| json!({"period": period, "new": new, "returned": returned.len()});
    periods.into_iter().map(row).collect()
}

fn mirror(shop: &Shop, asked: &Asked) -> Vec<Value> {
    let mut pollers: Vec<_> = shop.pollers.iter().collect();
    pollers.retain(|poller| {
        asked
            .business
            .is_none_or(|business| poller.business == business)
    });
    pollers.sort_by_key(|poller| (poller.route, poller.business));
    let row = |poller: &super::truth::Polled| {
        let gaps = u32::from(poller.missing.is_some());
        json!({"route": poller.route, "business": poller.business, "minutes_old": 0.0, "open_gaps": gaps,
            "all_gaps": gaps, "missing_about": poller.missing.unwrap_or(0)})
    };
    pollers.into_iter().map(row).collect()
}
