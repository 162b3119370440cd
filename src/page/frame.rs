//! The frame of every page: the shop's name, the navigation, the box to find something, and short
//! explanations.

use axum::response::Html;
use maud::{DOCTYPE, Markup, html};

use super::context::PageContext;
use super::request::link;
use super::text::{message, shown};

/// What is around the body of a page.
pub(super) struct Frame<'a> {
    pub(super) title: &'a str,
    /// The address of the page of the navigation that it belongs to; empty if it is none of them.
    pub(super) tab: &'static str,
    /// Whether it stays current by itself.
    pub(super) is_live: bool,
    /// What the box to find something holds.
    pub(super) term: &'a str,
}

impl<'a> Frame<'a> {
    /// The frame of a page that does not change by itself.
    pub(super) fn of(title: &'a str, tab: &'static str) -> Self {
        Self { title, tab, is_live: false, term: "" }
    }

    /// A whole page around its body.
    pub(super) fn around(&self, context: &PageContext, body: &Markup) -> Html<String> {
        let shop = shown(&context.shop());
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (shown(self.title)) ": " (shop) }
                    link rel="icon" href="icon.svg" type="image/svg+xml";
                    link rel="stylesheet" href="page.css";
                    @if self.is_live {
                        script src="page.js" defer {}
                        noscript { meta http-equiv="refresh" content="30"; }
                    }
                }
                body {
                    header {
                        a.shop href="." { (shop) }
                        (navigation(self.tab, context.shows_records()))
                        @if context.shows_records() {
                            form.find action="find" method="get" role="search" {
                                input type="search" name="q" value=(self.term) aria-label="Find" placeholder="Find a customer or a repair";
                                button { "Find" }
                            }
                        }
                    }
                    main { (body) }
                    @if self.is_live {
                        footer { p #live role="status" { noscript { "renewed every 30 seconds" } } }
                    }
                }
            }
        };
        Html(page.into_string())
    }
}

/// The links between the pages.
fn navigation(current: &str, shows_records: bool) -> Markup {
    let pages =
        [(".", "Home"), ("reports", "Reports"), ("records", "Records"), ("system", "System")];
    html! {
        nav aria-label="Pages" {
            @for (address, name) in pages {
                @if shows_records || address != "records" {
                    a href=(address) aria-current=[(address == current).then_some("page")] { (name) }
                }
            }
        }
    }
}

/// The links to the page before and the page after; `asked` is what else the address of a page has.
pub(super) fn pages(path: &str, asked: &[(&str, &str)], number: usize, has_next: bool) -> Markup {
    let of = |number: usize| link(path, &[asked, &[("page", &number.to_string())]].concat());
    html! {
        p.pages {
            @if number > 0 { a rel="prev" href=(of(number - 1)) { "Previous page" } " " }
            @if has_next { a rel="next" href=(of(number + 1)) { "Next page" } }
        }
    }
}

/// The page of a sentence, in place of what was asked for.
pub(super) fn explained(context: &PageContext, text: &str) -> Html<String> {
    let body = html! {
        section {
            h1 { "Not shown" }
            p { (message(text)) }
            p { a href="." { "Home" } ", " a href="reports" { "all reports" } }
        }
    };
    Frame::of("Not shown", "").around(context, &body)
}
