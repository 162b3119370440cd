//! The frame of every page: the shop's name, the navigation and the box to find something; and the
//! links by which one page leads to another.

use axum::response::Html;
use maud::{DOCTYPE, Markup, html};
use shopmirror_core::record::Route;

use super::context::PageContext;
use super::rights::Rights;
use super::text::shown;
use super::viewer::Viewer;
use crate::report::Range;

/// A whole page around its body; `tab` is the address of the page of the navigation that it belongs
/// to, and empty if it is none of them.
pub(super) fn framed(
    context: &PageContext,
    viewer: &Viewer,
    title: &str,
    tab: &str,
    body: &Markup,
) -> Html<String> {
    let rights = viewer.rights;
    let shop = shown(&context.shop());
    let is_live = [".", "system"].contains(&tab);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (head(&format!("{}: {shop}", shown(title)), ""))
                @if is_live {
                    script src="page.js" defer {}
                    noscript { meta http-equiv="refresh" content="30"; }
                }
            }
            body {
                header {
                    a.shop href="." dir="auto" { (shop) }
                    (navigation(tab, rights))
                    @if rights.shows_records() {
                        form.find action="find" method="get" role="search" {
                            input type="search" name="q" dir="auto" aria-label="Find"
                                placeholder="Find a customer or a repair";
                            button { "Find" }
                        }
                    }
                    @if context.sign_in.is_needed() {
                        form.sign-out action="sign-out" method="post" { button { "Sign out" } }
                    }
                }
                main { (body) }
                @if is_live {
                    footer { p #live role="status" { noscript { "renewed every 30 seconds" } } }
                }
            }
        }
    };
    Html(page.into_string())
}

/// What the head of every document has. `root` is the folder of the page's style, relative to the
/// document.
pub(super) fn head(title: &str, root: &str) -> Markup {
    html! {
        meta charset="utf-8";
        meta name="viewport" content="width=device-width, initial-scale=1";
        meta name="color-scheme" content="light dark";
        title { (title) }
        link rel="icon" href={ (root) "icon.svg" } type="image/svg+xml";
        link rel="stylesheet" href={ (root) "page.css" };
    }
}

/// The links between the pages.
fn navigation(current: &str, rights: Rights) -> Markup {
    let pages = [
        (".", "Home"),
        ("reports", "Reports"),
        ("records", "Records"),
        ("system", "System"),
    ];
    html! {
        nav aria-label="Pages" {
            @for (address, name) in pages {
                @let is_shown = match address {
                    "." => true,
                    "records" => rights.shows_records(),
                    _ => rights.shows_page(&format!("/{address}")),
                };
                @if is_shown {
                    a href=(address) aria-current=[marked(address == current, "page")] { (name) }
                }
            }
        }
    }
}

/// The choice of a range, each at its address.
pub(super) fn ranges(
    all: &[Range],
    is_current: impl Fn(Range) -> bool,
    address: impl Fn(&str) -> String,
) -> Markup {
    html! {
        nav.ranges aria-label="Range" {
            @for &range in all {
                @let address = address(range.as_str());
                @let current = marked(is_current(range), "true");
                a href=(address) aria-current=[current] { (range.title()) }
            }
        }
    }
}

/// The value of `aria-current`, which only the current link has.
pub(super) fn marked(is_current: bool, value: &str) -> Option<&str> {
    is_current.then_some(value)
}

/// The links to the previous and the next page of a list; `parameter` is in both addresses.
pub(super) fn pages(path: &str, parameter: (&str, &str), number: u16, has_next: bool) -> Markup {
    let previous = number.saturating_sub(1).to_string();
    let previous = link(path, &[parameter, ("page", &previous)]);
    let next = number.saturating_add(1).to_string();
    let next = link(path, &[parameter, ("page", &next)]);
    html! {
        p.pages {
            @if number > 0 { a rel="prev" href=(previous) { "Previous page" } " " }
            @if has_next { a rel="next" href=(next) { "Next page" } }
        }
    }
}

/// The address of a record.
pub(super) fn record_link(route: Route, id: &str) -> String {
    link("record", &[("route", route.as_str()), ("id", id)])
}

/// An address of this page with a query.
pub(super) fn link(path: &str, pairs: &[(&str, &str)]) -> String {
    let query = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(pairs)
        .finish();
    format!("{path}?{query}")
}
