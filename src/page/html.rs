//! The page as a document; without JavaScript it loads itself again every 10 seconds.

use maud::{DOCTYPE, Markup, html};

use super::context::PageContext;
use super::frame::navigation;
use super::parts;
use super::snapshot::Snapshot;

/// The whole page.
pub(super) fn page(context: &PageContext, snapshot: &Snapshot) -> Markup {
    document(
        &parts::title(&context.shop, snapshot),
        context,
        &parts::all(snapshot, context.shows_records),
    )
}

/// The page while the daemon's tasks do not answer.
pub(super) fn stuck(context: &PageContext) -> Markup {
    document(&parts::stuck_title(&context.shop), context, &parts::stuck())
}

fn document(title: &str, context: &PageContext, parts: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="icon" href="icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="page.css";
                script src="page.js" defer {}
                noscript { meta http-equiv="refresh" content="10"; }
            }
            body {
                header {
                    h1 { "shopmirror" }
                    p.shop { (context.shop) }
                    (navigation(context.shows_records))
                    p #live role="status" { noscript { "renewed every 10 seconds" } }
                }
                main { (parts) }
                footer {
                    "For tools: " a href="metrics" { "metrics" } ", " a href="api/status" { "status as JSON" }
                    ", " a href="readyz" { "readyz" } ", " a href="healthz" { "healthz" }
                    ". In a terminal: " code { "shopmirror status" } "."
                }
            }
        }
    }
}
