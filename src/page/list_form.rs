//! How a list is sorted and filtered on a page: by links and a form that need no script. All of it
//! is in the address, so that a list can be kept and sent to somebody.

use maud::{Markup, html};

use super::frame::link;
use super::text::{label, shown};
use crate::report::ColumnKind;
use crate::store::{Filter, FilterWay, ListQuery};

/// The address of a list.
pub(super) struct ListAddress<'a> {
    /// `report` or `records`.
    pub(super) path: &'static str,
    /// What is asked for beside the order and the filters, such as the name of a report.
    pub(super) parameters: Vec<(String, String)>,
    /// The order and the filters.
    pub(super) list: &'a ListQuery,
}

/// A column by which a list can be filtered.
pub(super) struct FilterColumn<'a> {
    pub(super) name: &'a str,
    pub(super) kind: &'a ColumnKind,
}

impl FilterColumn<'_> {
    /// Whether the form has a box for this filter.
    fn shows(&self, filter: &Filter) -> bool {
        let ways: &[FilterWay] = match self.kind {
            ColumnKind::Choice(_) => &[FilterWay::Is],
            ColumnKind::Text => &[FilterWay::Has],
            ColumnKind::Number | ColumnKind::Day => &[FilterWay::From, FilterWay::To],
        };
        filter.column == self.name && ways.contains(&filter.way)
    }
}

impl ListAddress<'_> {
    /// The address of the same list with another order or other filters.
    pub(super) fn with(&self, list: &ListQuery) -> String {
        let mut pairs = self.parameters.clone();
        pairs.extend(list.parameters());
        if let Some(after) = &list.after {
            pairs.push(("after".to_owned(), after.text()));
        }
        let mut parts: Vec<(&str, &str)> = Vec::with_capacity(pairs.len());
        for (name, text) in &pairs {
            parts.push((name, text));
        }
        link(self.path, &parts)
    }

    /// The address of the list in the order of a column.
    pub(super) fn sorted(&self, column: &str) -> String {
        self.with(&self.list.sorted_by(column))
    }

    /// The form that chooses rows. It is open if it chooses some now.
    pub(super) fn filter_form(&self, columns: &[FilterColumn<'_>]) -> Markup {
        let without = ListQuery {
            filters: Vec::new(),
            after: None,
            ..self.list.clone()
        };
        let is_filtered = !self.list.filters.is_empty();
        html! {
            details.rows open[is_filtered] {
                summary { "Filter the rows" }
                form.filter action=(self.path) method="get" {
                    @for (name, text) in &self.parameters {
                        input type="hidden" name=(name) value=(text);
                    }
                    @for (name, text) in without.parameters() {
                        input type="hidden" name=(name) value=(text);
                    }
                    @for (name, text) in self.without_a_box(columns).parameters() {
                        input type="hidden" name=(name) value=(text);
                    }
                    @for column in columns { (self.filter(column)) }
                    button { "Filter" }
                    @if is_filtered { a href=(self.with(&without)) { "All rows" } }
                }
            }
        }
    }

    /// The filters that no box of the form shows: it keeps them as they are.
    fn without_a_box(&self, columns: &[FilterColumn<'_>]) -> ListQuery {
        let mut filters = self.list.filters.clone();
        filters.retain(|filter| !columns.iter().any(|column| column.shows(filter)));
        ListQuery {
            filters,
            ..ListQuery::default()
        }
    }

    /// What chooses rows by one column.
    fn filter(&self, column: &FilterColumn<'_>) -> Markup {
        let FilterColumn { name, kind } = column;
        let title = label(&shown(name));
        html! {
            @match kind {
                ColumnKind::Choice(choices) => (self.choice(name, &title, choices)),
                ColumnKind::Text => label {
                    bdi { (title) } " "
                    (self.input(name, FilterWay::Has, "text"))
                },
                ColumnKind::Number => fieldset {
                    legend { bdi { (title) } }
                    label { "from " (self.input(name, FilterWay::From, "number")) }
                    label { "to " (self.input(name, FilterWay::To, "number")) }
                },
                ColumnKind::Day => fieldset {
                    legend { bdi { (title) } }
                    label { "from " (self.input(name, FilterWay::From, "date")) }
                    label { "to " (self.input(name, FilterWay::To, "date")) }
                },
            }
        }
    }

    fn choice(&self, name: &str, title: &str, choices: &[String]) -> Markup {
        let chosen = self.list.compared_with(name, FilterWay::Is);
        html! {
            label {
                bdi { (title) } " "
                select name={ (name) ".is" } {
                    option value="" { "any" }
                    @if !chosen.is_empty() && !choices.iter().any(|choice| choice == chosen) {
                        option value=(chosen) dir="auto" selected { (shown(chosen)) }
                    }
                    @for choice in choices {
                        option value=(choice) dir="auto" selected[choice == chosen] {
                            (shown(choice))
                        }
                    }
                }
            }
        }
    }

    /// A box for what a column is compared with.
    fn input(&self, name: &str, way: FilterWay, kind: &str) -> Markup {
        let word: &str = way.into();
        let text = self.list.compared_with(name, way);
        let any_fraction = (kind == "number").then_some("any");
        html! {
            input type=(kind) name={ (name) "." (word) } value=(text) step=[any_fraction] dir="auto";
        }
    }
}
