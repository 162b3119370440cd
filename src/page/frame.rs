//! The frame of every page: the shop's name, the navigation, the box to find something, and short
//! explanations.

use axum::response::Html;
use maud::{DOCTYPE, Markup, html};

use super::context::PageContext;
use super::text::{message, shown};

/// The page of the navigation that another one belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Home,
    Reports,
    Records,
    System,
    /// None of them.
    Other,
}

/// What is around the body of a page.
pub(super) struct Frame<'a> {
    pub(super) title: &'a str,
    pub(super) tab: Tab,
    /// Whether it stays current by itself.
    pub(super) is_live: bool,
    /// What the box to find something holds.
    pub(super) term: &'a str,
}

impl<'a> Frame<'a> {
    /// The frame of a page that does not change by itself.
    pub(super) fn of(title: &'a str, tab: Tab) -> Self {
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
                    title #title { (title(&shop, self.title)) }
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

/// The title of the window.
pub(super) fn title(shop: &str, title: &str) -> String {
    format!("{}: {}", shown(title), shown(shop))
}

/// The links between the pages.
fn navigation(current: Tab, shows_records: bool) -> Markup {
    let tabs = [
        (Tab::Home, ".", "Home"),
        (Tab::Reports, "reports", "Reports"),
        (Tab::Records, "records", "Records"),
        (Tab::System, "system", "System"),
    ];
    let shown = tabs.into_iter().filter(|(tab, ..)| shows_records || *tab != Tab::Records);
    html! {
        nav aria-label="Pages" {
            @for (tab, address, name) in shown {
                a href=(address) aria-current=[(tab == current).then_some("page")] { (name) }
            }
        }
    }
}

/// The links to the page before and the page after; `address` makes the address of a page from its number,
/// which is empty for the first one.
pub(super) fn pages(number: usize, has_next: bool, address: impl Fn(&str) -> String) -> Markup {
    let of = |number: usize| {
        if number == 0 { address("") } else { address(&number.to_string()) }
    };
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
    Frame::of("Not shown", Tab::Other).around(context, &body)
}
