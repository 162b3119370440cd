//! The name of a route as an argument, with the names for help and completion.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};

use crate::record::Route;

/// Parses a route; also accepts its name in the API, for example `job-status-changes`.
#[derive(Debug, Clone, Copy)]
pub(super) struct RouteName;

impl TypedValueParser for RouteName {
    type Value = Route;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Route, Error> {
        StringValueParser::new()
            .try_map(|text| text.parse::<Route>())
            .parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Route::ALL.into_iter().map(|route| PossibleValue::new(route.as_str()))))
    }
}
