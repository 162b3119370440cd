//! The frame of every page but the status: the head, the navigation, and short explanations.

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use super::context::PageContext;
use super::text::{message, shown};

/// A whole page around its body.
pub(super) fn framed(context: &PageContext, title: &str, body: &Markup) -> Html<String> {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (shown(&context.shop)) ": " (shown(title)) }
                link rel="icon" href="icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="page.css";
            }
            body {
                header {
                    h1 { "shopmirror" }
                    p.shop { (context.shop) }
                    (navigation(context.shows_records))
                }
                main { (body) }
            }
        }
    };
    Html(page.into_string())
}

/// The links between the pages.
pub(super) fn navigation(shows_records: bool) -> Markup {
    html! {
        nav aria-label="Pages" {
            a href="." { "Status" } " "
            a href="reports" { "Reports" }
            @if shows_records { " " a href="records" { "Records" } }
        }
    }
}

/// A sentence instead of what was asked for: as a page, or as plain text for a program.
pub(super) fn explained(
    context: &PageContext,
    code: StatusCode,
    text: &str,
    is_page: bool,
) -> Response {
    if !is_page {
        return (code, format!("{}\n", shown(text))).into_response();
    }
    let body = html! { section { p { (message(text)) } p { a href="reports" { "All reports" } } } };
    (code, framed(context, "Not shown", &body)).into_response()
}
