//! A report in the list of reports, for programs.

use serde::Serialize;

use super::head::{Parameter, Report};

/// A report in the list of reports.
#[derive(Debug, Serialize)]
pub struct ListedReport<'r> {
    /// The name on the command line and in the page's address.
    name: &'r str,
    /// The title.
    title: &'r str,
    /// What it shows.
    about: &'r str,
    /// Whether it has a chart.
    has_chart: bool,
    /// What can be set beside the period and the business.
    parameters: Vec<ListedParameter<'r>>,
}

/// A parameter of a report, `:name` in its SELECT.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ListedParameter<'r> {
    /// Its name.
    name: &'r str,
    /// Its value if none is given.
    default: &'r str,
    /// What it means.
    about: &'r str,
}

impl<'r> From<&'r Report> for ListedReport<'r> {
    fn from(report: &'r Report) -> Self {
        let listed = |parameter: &'r Parameter| ListedParameter {
            name: &parameter.name,
            default: &parameter.default,
            about: &parameter.about,
        };
        Self {
            name: &report.name,
            title: &report.title,
            about: &report.about,
            has_chart: report.chart.is_some(),
            parameters: report.parameters.iter().map(listed).collect(),
        }
    }
}
