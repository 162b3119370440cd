//! `only_if` of a scheduled report: the reason without which it is not sent.

use serde::Deserializer;

use super::value::parsed;

/// Why a scheduled report is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnlyIf {
    /// It has a row.
    Rows,
    /// A row meets this; the report stays whole.
    AnyRow(RowTest),
}

/// A condition on one column of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowTest {
    /// The name of the column.
    pub column: String,
    /// How its value is compared.
    pub comparison: Comparison,
    /// With what: a number or a text.
    pub value: String,
}

/// How a value is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `>=`
    GreaterOrEqual,
    /// `>`
    Greater,
}

/// The signs of comparisons; one that begins with another comes first.
const SIGNS: [(&str, Comparison); 7] = [
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("!=", Comparison::NotEqual),
    ("==", Comparison::Equal),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
    ("=", Comparison::Equal),
];

impl OnlyIf {
    /// Reads `rows` or a condition, as `days_late > 3`.
    ///
    /// # Errors
    /// What it must be, to follow the name of the key.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text == "rows" {
            return Ok(Self::Rows);
        }
        let problem = || {
            "must be \"rows\", or a condition on a column that a row meets, for example \
             \"days_late > 3\" or \"status = Ready\""
                .to_owned()
        };
        let is_of_name = |c: char| c.is_alphanumeric() || c == '_' || c == ' ';
        let end = text.find(|c| !is_of_name(c)).ok_or_else(problem)?;
        let (column, rest) = text.split_at(end);
        for (sign, comparison) in SIGNS {
            let Some(value) = rest.strip_prefix(sign) else {
                continue;
            };
            let column = column.trim();
            let value = value.trim().trim_matches(['"', '\'']);
            if column.is_empty() || value.is_empty() {
                break;
            }
            return Ok(Self::AnyRow(RowTest {
                column: column.to_owned(),
                comparison,
                value: value.to_owned(),
            }));
        }
        Err(problem())
    }
}

/// Reads the key.
pub(super) fn read<'de, D: Deserializer<'de>>(d: D) -> Result<Option<OnlyIf>, D::Error> {
    parsed(d, |text| OnlyIf::parse(text).map(Some))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_rows_or_a_condition_on_a_column() {
        let of = |column: &str, comparison, value: &str| {
            Ok(OnlyIf::AnyRow(RowTest {
                column: column.to_owned(),
                comparison,
                value: value.to_owned(),
            }))
        };
        assert_eq!(OnlyIf::parse("rows"), Ok(OnlyIf::Rows));
        let late = of("days_late", Comparison::Greater, "3");
        assert_eq!(OnlyIf::parse("days_late > 3"), late);
        assert_eq!(OnlyIf::parse("days_late>3"), late);
        let net = of("net", Comparison::LessOrEqual, "-0.5");
        assert_eq!(OnlyIf::parse("net <= -0.5"), net);
        let ready = of("status", Comparison::Equal, "Ready now");
        assert_eq!(OnlyIf::parse("status == 'Ready now'"), ready);
        for wrong in [
            "",
            "row",
            "> 3",
            "days_late >",
            "days_late",
            "a ~ 3",
            "a ! 3",
        ] {
            assert!(OnlyIf::parse(wrong).is_err(), "{wrong}");
        }
    }
}
