//! The page for a display on the wall of the shop: a few large numbers, no names, no amounts, no
//! menu. It needs no script: a browser loads it again every 30 seconds.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{Html, IntoResponse, Response};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use maud::{DOCTYPE, Markup, html};

use super::context::PageContext;
use super::frame::head;
use super::home::clock_time;
use super::text::{shown, zone_name};
use super::viewer::Viewer;
use crate::report::{Cell, Home, Range, marked_count};
use crate::status::{Health, WorkspaceStatus};
use crate::text::locale::Locale;

/// After how many seconds a browser loads the page again.
const AGAIN: &str = "30";

/// The page with the numbers as they are now.
pub(super) async fn respond(State(context): State<Arc<PageContext>>, viewer: Viewer) -> Response {
    let status = context.status().await;
    let home = context.numbers(Range::Today, viewer.rights).await;
    let now = Timestamp::now();
    let zone = &context.page.zone;
    let mut problem = None;
    match status {
        None => problem = Some("The program does not answer.".to_owned()),
        Some(status) if status.health != Health::Ok => {
            problem = Some(trouble(&status, now, zone));
        }
        Some(_) => {}
    }
    let shop = shown(&context.shop());
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (head(&shop, ""))
                meta http-equiv="refresh" content=(AGAIN);
            }
            body.wall {
                main {
                    h1 dir="auto" { (shop) }
                    @if let Some(problem) = &problem { p.health data-good="false" { (problem) } }
                    @match &home {
                        Some(home) => {
                            (numbers(home, &viewer.locale))
                            p.note {
                                "As of " (clock_time(home.as_of, now, zone)) ", " (zone_name(zone))
                            }
                        }
                        None => p { "The numbers cannot be read now: this page tries it again." }
                    }
                }
            }
        }
    };
    Html(page.into_string()).into_response()
}

/// What is wrong, without the name of anything: customers read it too.
fn trouble(status: &WorkspaceStatus, now: Timestamp, zone: &TimeZone) -> String {
    let age_s = status.unread().and_then(|unread| unread.age_s);
    if let Some(age_s) = age_s
        && let Ok(since) = now.saturating_sub(SignedDuration::from_secs_f64(age_s))
    {
        let since = clock_time(since, now, zone);
        return format!("New records have not been read since {since}.");
    }
    match status.health {
        Health::AtRisk | Health::Failing => status.sentence(),
        Health::Ok | Health::Degraded => "Something needs attention.".to_owned(),
    }
}

fn numbers(home: &Home, locale: &Locale) -> Markup {
    let now = &home.now;
    let all = [
        ("Taken in today", &home.taken_in.now),
        ("Completed today", &home.completed.now),
        ("New leads today", &home.leads.now),
        ("Open repairs", &now.open.cell),
        ("Ready for pickup", &now.ready.cell),
        ("Overdue repairs", &now.overdue.cell),
    ];
    html! {
        dl.wall {
            @for (title, cell) in all {
                div {
                    dt { (title) }
                    dd { (number(cell, locale)) }
                }
            }
        }
    }
}

/// A number with how sure it is.
fn number(cell: &Cell, locale: &Locale) -> String {
    if cell.number().is_none() {
        return "unknown".to_owned();
    }
    marked_count(cell, locale)
}
