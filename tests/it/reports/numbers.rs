//! One test for each built-in report.

use std::collections::{BTreeMap, BTreeSet};

use jiff::ToSpan;
use jiff::civil::Date;
use serde_json::{Value, json};

use super::truth::{Shop, assert_rows, at, shops};

fn text<'v>(record: &'v Value, field: &str) -> &'v str {
    record[field].as_str().unwrap_or("(none)")
}

/// Every day of the history.
fn each_day(shop: &Shop) -> Vec<Date> {
    let (from, to) = shop.days();
    from.series(1.day()).take_while(|day| *day <= to).collect()
}

fn count(shop: &Shop, route: &str, is_in: impl Fn(Date) -> bool) -> usize {
    shop.all(route).iter().filter(|record| is_in(shop.day(record))).count()
}

#[tokio::test]
async fn intake_counts_each_record_on_its_local_day() {
    for shop in shops().await.iter() {
        let row = |name: String, is_in: &dyn Fn(Date) -> bool| {
            json!({
                "period": name,
                "jobs": count(shop, "jobs", is_in),
                "leads": count(shop, "leads", is_in),
                "customers": count(shop, "customers", is_in),
            })
        };
        let days = each_day(shop);
        let wanted: Vec<Value> =
            days.iter().map(|day| row(day.to_string(), &|d| d == *day)).collect();
        assert_rows("intake", &shop.rows("intake", &[]).await, &wanted);

        let monday = |day: Date| {
            let mut day = day;
            while day.weekday() != jiff::civil::Weekday::Monday {
                day = day.yesterday().unwrap();
            }
            day
        };
        let weeks: BTreeSet<Date> = days.iter().map(|day| monday(*day)).collect();
        let wanted: Vec<Value> =
            weeks.iter().map(|week| row(week.to_string(), &|d| monday(d) == *week)).collect();
        assert_rows("intake by week", &shop.rows("intake", &["--by", "week"]).await, &wanted);
        let month = |day: Date| day.to_string()[..7].to_owned();
        let months: BTreeSet<String> = days.iter().map(|day| month(*day)).collect();
        let wanted: Vec<Value> =
            months.iter().map(|name| row(name.clone(), &|d| month(d) == *name)).collect();
        assert_rows("intake by month", &shop.rows("intake", &["--by", "month"]).await, &wanted);
    }
}

#[tokio::test]
async fn the_present_and_the_same_moment_of_the_past_give_the_same_numbers() {
    for shop in shops().await.iter() {
        for name in [
            "intake",
            "sources",
            "payments",
            "busiest-hours",
            "customers",
            "leads",
            "turnaround-by-brand",
        ] {
            let now = shop.run(name, &["--format", "json"]).await.json();
            assert_eq!(now, Value::from(shop.rows(name, &[]).await), "{name}");
        }
    }
}

#[tokio::test]
async fn leads_are_counted_by_source() {
    for shop in shops().await.iter() {
        let mut sources: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
        for lead in shop.all("leads") {
            let source = sources.entry(text(lead, "source")).or_default();
            source.0 += 1;
            source.1 += u32::from(lead["status_stage"] == "completed");
        }
        let mut wanted: Vec<_> = sources.into_iter().collect();
        wanted.sort_by_key(|(name, (leads, _))| (std::cmp::Reverse(*leads), *name));
        let wanted: Vec<Value> = wanted
            .iter()
            .map(|(source, (leads, closed))| json!({"source": source, "leads": leads, "closed": closed}))
            .collect();
        assert_rows("sources", &shop.rows("sources", &[]).await, &wanted);
    }
}

#[tokio::test]
async fn a_lead_is_converted_once_its_customer_exists() {
    for shop in shops().await.iter() {
        let same = |a: &Value, b: &Value, field: &str| a[field].is_string() && a[field] == b[field];
        let is_converted = |lead: &Value| {
            shop.all("customers").iter().any(|customer| {
                (same(lead, customer, "mobile_number") || same(lead, customer, "email"))
                    && customer["created_at"].as_str() >= lead["created_at"].as_str()
            })
        };
        let mut periods: BTreeMap<Date, (u32, u32)> = BTreeMap::new();
        for lead in shop.all("leads") {
            let period = periods.entry(shop.day(lead)).or_default();
            period.0 += 1;
            period.1 += u32::from(is_converted(lead));
        }
        assert!(periods.values().any(|(all, converted)| *converted > 0 && converted < all));
        let wanted: Vec<Value> = periods
            .iter()
            .map(|(day, (leads, converted))| {
                let percent = (f64::from(*converted) * 1000.0 / f64::from(*leads)).round() / 10.0;
                json!({"period": day.to_string(), "leads": leads, "converted": converted, "converted_percent": percent})
            })
            .collect();
        assert_rows("leads", &shop.rows("leads", &[]).await, &wanted);
    }
}

#[tokio::test]
async fn follow_ups_are_the_open_leads_that_are_due() {
    for shop in shops().await.iter() {
        let today = shop.days().1;
        let mut due: Vec<(Date, &Value)> = shop
            .all("leads")
            .iter()
            .filter(|lead| lead["status_stage"] == "open")
            .filter_map(|lead| Some((lead["next_follow_up"].as_str()?.parse().ok()?, lead)))
            .filter(|(day, _)| *day <= today)
            .collect();
        due.sort_by_key(|(day, lead)| (*day, text(lead, "name").to_owned()));
        let wanted: Vec<Value> = due
            .iter()
            .map(|(day, lead)| {
                json!({"id": lead["id"].to_string(), "name": lead["name"], "status": lead["status"],
                    "due": day.to_string(), "days_late": (today - *day).get_days()})
            })
            .collect();
        assert_rows("follow-ups", &shop.rows("follow-ups", &[]).await, &wanted);
    }
}

#[tokio::test]
async fn open_repairs_are_grouped_by_status_and_age() {
    for shop in shops().await.iter() {
        let mut groups: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
        for job in shop.all("jobs").iter().filter(|job| job["status_stage"] != "completed") {
            groups
                .entry((text(job, "status_stage"), text(job, "status")))
                .or_default()
                .push(shop.age(job));
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|((_, status), ages)| (std::cmp::Reverse(ages.len()), *status));
        let wanted: Vec<Value> = groups
            .iter()
            .map(|((stage, status), ages)| {
                let between = |low: f64, high: f64| ages.iter().filter(|age| **age >= low && **age < high).count();
                let oldest = ages.iter().fold(0.0_f64, |a, b| a.max(*b));
                json!({"stage": stage, "status": status, "open": ages.len(), "under_1_day": between(0.0, 1.0),
                    "from_1_to_3_days": between(1.0, 3.0), "from_3_to_7_days": between(3.0, 7.0),
                    "over_7_days": between(7.0, 1e9), "oldest_days": (oldest * 10.0).round() / 10.0})
            })
            .collect();
        assert_rows("open-repairs", &shop.rows("open-repairs", &[]).await, &wanted);
    }
}

/// Hours from the first to the last status change of each completed job, by a field of the job.
fn turnaround(shop: &Shop, field: &str, name: &str) -> Vec<Value> {
    let mut changes: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for change in shop.all("job_status_changes") {
        changes.entry(text(change, "job_number")).or_default().push(change);
    }
    let mut groups: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (number, changes) in &changes {
        if changes.iter().any(|change| change["status_stage"] == "completed") {
            let job = shop.all("jobs").iter().find(|job| job["job_number"] == *number).unwrap();
            let times: Vec<_> = changes.iter().map(|change| at(change)).collect();
            let span = times.iter().max().unwrap().duration_since(*times.iter().min().unwrap());
            groups.entry(text(job, field)).or_default().push(span.as_secs_f64() / 3600.0);
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(name, hours)| (std::cmp::Reverse(hours.len()), *name));
    groups
        .into_iter()
        .map(|(group, mut hours)| {
            hours.sort_by(f64::total_cmp);
            let n = hours.len();
            let median = if n % 2 == 1 {
                hours[n / 2]
            } else {
                f64::midpoint(hours[n / 2 - 1], hours[n / 2])
            };
            // The smallest value that nine of ten do not exceed.
            let p90 = hours[(n * 9).div_ceil(10) - 1];
            json!({name: group, "repairs": n, "median_hours": median, "p90_hours": p90})
        })
        .collect()
}

#[tokio::test]
async fn turnaround_is_the_time_between_the_first_and_the_last_status_by_brand() {
    for shop in shops().await.iter() {
        let wanted = turnaround(shop, "device_brand", "brand");
        assert_rows("turnaround", &shop.rows("turnaround-by-brand", &[]).await, &wanted);
    }
}

#[tokio::test]
async fn turnaround_is_known_for_each_person() {
    for shop in shops().await.iter() {
        let wanted = turnaround(shop, "assigned_to", "person");
        assert_rows("turnaround", &shop.rows("turnaround-by-person", &[]).await, &wanted);
    }
}

#[tokio::test]
async fn payments_add_up_to_the_cent_with_refunds_apart() {
    for shop in shops().await.iter() {
        let mut days: BTreeMap<Date, [i64; 4]> =
            each_day(shop).into_iter().map(|d| (d, [0; 4])).collect();
        for payment in shop.all("payments") {
            let amount = payment["amount"].to_string();
            let cents = cents(&amount);
            let day = days.get_mut(&shop.day(payment)).unwrap();
            let place = if cents < 0 { 2 } else { 0 };
            day[place] += 1;
            day[place + 1] += cents.abs();
        }
        let found = shop.rows("payments", &[]).await;
        let units = |cents: i64| cents as f64 / 100.0;
        let wanted: Vec<Value> = days
            .iter()
            .map(|(day, [payments, received, refunds, refunded])| {
                json!({"period": day.to_string(), "payments": payments, "received": units(*received),
                    "refunds": refunds, "refunded": units(*refunded), "net": units(received - refunded)})
            })
            .collect();
        // Exactly: money is not rounded.
        assert_eq!(found, wanted);
        let refunds: i64 = days.values().map(|day| day[2]).sum();
        assert_eq!(refunds, 1);
        let table = shop.run("payments", &["--format", "csv"]).await.out;
        for cell in table.lines().skip(1).flat_map(|line| line.split(',').skip(2)) {
            assert!(cell.len() < 12, "{cell} in {table}");
        }
    }
}

/// An amount as JSON text, in cents.
fn cents(amount: &str) -> i64 {
    let (whole, part) = amount.split_once('.').unwrap_or((amount, ""));
    let digits = format!("{}{:0<2}", whole.trim_start_matches('-'), part);
    let cents: i64 = digits.parse().unwrap();
    if amount.starts_with('-') { -cents } else { cents }
}

#[tokio::test]
async fn outstanding_amounts_are_what_is_billed_and_not_paid() {
    for shop in shops().await.iter() {
        let mut owing: Vec<(i64, i64, &Value)> = shop
            .all("jobs")
            .iter()
            .map(|job| {
                (
                    cents(&job["total_amount"].to_string()),
                    cents(&job["paid_amount"].to_string()),
                    job,
                )
            })
            .filter(|(total, paid, _)| total > paid)
            .collect();
        owing.sort_by_key(|(total, paid, job)| {
            (std::cmp::Reverse(total - paid), text(job, "created_at").to_owned())
        });
        let units = |cents: i64| cents as f64 / 100.0;
        let row = |number: &Value,
                   name: &Value,
                   status: &Value,
                   total: i64,
                   paid: i64,
                   days: i64| {
            json!({"job_number": number, "customer_name": name, "status": status, "total": units(total),
                "paid": units(paid), "outstanding": units(total - paid), "days_old": days})
        };
        let days = |job: &Value| shop.age(job) as i64;
        let (total, paid) = owing.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let oldest = owing.iter().map(|(_, _, job)| days(job)).max().unwrap();
        let all = json!(format!("all {}", owing.len()));
        let mut wanted = vec![row(&all, &Value::Null, &Value::Null, total, paid, oldest)];
        wanted.extend(owing.iter().map(|(total, paid, job)| {
            row(&job["job_number"], &job["customer_name"], &job["status"], *total, *paid, days(job))
        }));
        assert_rows("outstanding", &shop.rows("outstanding", &[]).await, &wanted);
    }
}

#[tokio::test]
async fn outsourced_work_is_counted_by_firm_with_what_is_overdue() {
    for shop in shops().await.iter() {
        let mut firms: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for job in
            shop.all("outsourced_jobs").iter().filter(|job| job["status_stage"] != "completed")
        {
            firms.entry(text(job, "vendor_name")).or_default().push(shop.age(job));
        }
        let mut firms: Vec<_> = firms.into_iter().collect();
        firms.sort_by_key(|(name, ages)| (std::cmp::Reverse(ages.len()), *name));
        for limit in [7, 0] {
            let wanted: Vec<Value> = firms
                .iter()
                .map(|(name, ages)| {
                    let oldest = ages.iter().fold(0.0_f64, |a, b| a.max(*b));
                    let overdue = ages.iter().filter(|age| **age > f64::from(limit)).count();
                    json!({"vendor": name, "out": ages.len(), "overdue": overdue, "oldest_days": (oldest * 10.0).round() / 10.0})
                })
                .collect();
            let set = format!("overdue={limit}");
            assert_rows("outsourced", &shop.rows("outsourced", &["--set", &set]).await, &wanted);
        }
    }
}

#[tokio::test]
async fn the_busiest_hours_are_those_of_the_wall_clock() {
    for shop in shops().await.iter() {
        let mut hours: BTreeMap<(i8, i8), u32> = BTreeMap::new();
        for job in shop.all("jobs") {
            let local = shop.local(job);
            *hours.entry((local.weekday().to_monday_one_offset(), local.hour())).or_default() += 1;
        }
        let names = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
        let wanted: Vec<Value> = hours
            .iter()
            .map(|((day, hour), jobs)| {
                json!({"weekday": names[usize::try_from(*day).unwrap() - 1], "hour": hour, "repairs": jobs})
            })
            .collect();
        assert_rows("busiest-hours", &shop.rows("busiest-hours", &[]).await, &wanted);
    }
}

#[tokio::test]
async fn the_load_of_each_person_is_open_taken_in_and_completed_work() {
    for shop in shops().await.iter() {
        let name = |job: &'_ Value| {
            job["assigned_to"].as_str().map_or("(not assigned)".to_owned(), str::to_owned)
        };
        let mut owned: BTreeMap<String, [u32; 3]> = BTreeMap::new();
        for job in shop.all("jobs") {
            let row = owned.entry(name(job)).or_default();
            row[0] += u32::from(job["status_stage"] != "completed");
            row[1] += 1;
        }
        let done: BTreeSet<&str> = shop
            .all("job_status_changes")
            .iter()
            .filter(|change| change["status_stage"] == "completed")
            .map(|change| text(change, "job_number"))
            .collect();
        for number in done {
            let job = shop.all("jobs").iter().find(|job| job["job_number"] == number).unwrap();
            owned.entry(name(job)).or_default()[2] += 1;
        }
        let mut rows: Vec<_> = owned.into_iter().collect();
        rows.sort_by_key(|(name, [open, ..])| (std::cmp::Reverse(*open), name.clone()));
        let wanted: Vec<Value> = rows
            .iter()
            .map(|(name, [open, taken, done])| json!({"person": name, "open": open, "taken_in": taken, "completed": done}))
            .collect();
        assert_rows("technicians", &shop.rows("technicians", &[]).await, &wanted);
    }
}

#[tokio::test]
async fn customers_are_new_or_return_with_another_repair() {
    for shop in shops().await.iter() {
        let wanted: Vec<Value> = each_day(shop)
            .iter()
            .map(|day| {
                let returning: BTreeSet<&str> = shop
                    .all("jobs")
                    .iter()
                    .filter(|job| shop.day(job) == *day && job["mobile_number"].is_string())
                    .filter(|job| {
                        shop.all("jobs").iter().any(|before| {
                            before["mobile_number"] == job["mobile_number"]
                                && before["created_at"].as_str() < job["created_at"].as_str()
                        })
                    })
                    .map(|job| text(job, "mobile_number"))
                    .collect();
                json!({"period": day.to_string(), "new": count(shop, "customers", |d| d == *day), "returned": returning.len()})
            })
            .collect();
        assert!(wanted.iter().any(|row| row["returned"] != 0));
        assert_rows("customers", &shop.rows("customers", &[]).await, &wanted);
    }
}

#[tokio::test]
async fn the_mirror_reports_its_own_freshness_and_loss() {
    for shop in shops().await.iter() {
        let mut routes =
            ["jobs", "customers", "leads", "payments", "job_status_changes", "outsourced_jobs"];
        routes.sort_unstable();
        let wanted: Vec<Value> = routes
            .iter()
            .map(|route| json!({"route": route, "business": null, "minutes_old": 0.0, "open_gaps": 0, "all_gaps": 0, "missing_about": 0, "polls": 1}))
            .collect();
        let mut found = shop.rows("mirror", &[]).await;
        for row in &mut found {
            assert!(row["minutes_old"].as_f64().unwrap() < 0.1, "{row}");
            row["minutes_old"] = json!(0.0);
        }
        assert_rows("mirror", &found, &wanted);
    }
}
