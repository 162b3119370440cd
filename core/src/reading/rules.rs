//! The rules by which the ambiguous values of a field are read, and the evidence for them.
//!
//! A rule is found once and kept. It is withdrawn when a value allows only the other one, and comes
//! back when that value is gone.

use serde::{Deserialize, Serialize};

/// Values that allow only one reading and none only the other: so many make it a rule.
const ENOUGH: i64 = 5;

/// How the ambiguous values of a field are meant.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Rule {
    /// `1.234` is less than two, `1,234` more than a thousand.
    DecimalPoint,
    /// `1,234` is less than two, `1.234` more than a thousand.
    DecimalComma,
    /// `05/11/2026` is in November.
    DayFirst,
    /// `05/11/2026` is in May.
    MonthFirst,
    /// Midnight of any offset is a date, as written.
    Dates,
    /// A time with an offset is a moment, whose day is that of the shop's clock.
    Moments,
}

/// What a rule decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Which sign stands before the fraction of an amount.
    Decimals,
    /// Whether the day or the month comes first.
    DayOrder,
    /// Whether midnight with an offset is a date or a moment.
    Midnight,
}

impl Question {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Decimals, Self::DayOrder, Self::Midnight];

    /// The rules that decide it.
    #[must_use]
    pub fn rules(self) -> [Rule; 2] {
        match self {
            Self::Decimals => [Rule::DecimalPoint, Rule::DecimalComma],
            Self::DayOrder => [Rule::DayFirst, Rule::MonthFirst],
            Self::Midnight => [Rule::Dates, Rule::Moments],
        }
    }
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::DecimalPoint,
        Self::DecimalComma,
        Self::DayFirst,
        Self::MonthFirst,
        Self::Dates,
        Self::Moments,
    ];

    /// Its word in the store.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// What it says of the values of a field, for people.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::DecimalPoint => "1,234.50: a point before the fraction",
            Self::DecimalComma => "1.234,50: a comma before the fraction",
            Self::DayFirst => "27/11/2026: the day before the month",
            Self::MonthFirst => "11/27/2026: the month before the day",
            Self::Dates => "dates: midnight is the date as written",
            Self::Moments => "moments: the day is that of the shop's clock",
        }
    }

    fn bit(self) -> u8 {
        1 << (self as u8)
    }
}

/// The rules that a field has; at most one for each question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RuleSet(u8);

impl RuleSet {
    /// Whether it has this rule.
    #[must_use]
    pub fn has(self, rule: Rule) -> bool {
        self.0 & rule.bit() != 0
    }

    /// All of its rules.
    #[must_use]
    pub fn rules(self) -> Vec<Rule> {
        let mut rules = Rule::ALL.to_vec();
        rules.retain(|rule| self.has(*rule));
        rules
    }

    /// Takes an answer to a question, in place of the one before.
    pub fn set(&mut self, question: Question, answer: Option<Rule>) {
        for rule in question.rules() {
            self.0 &= !rule.bit();
        }
        if let Some(rule) = answer {
            self.0 |= rule.bit();
        }
    }
}

impl FromIterator<Rule> for RuleSet {
    fn from_iter<T: IntoIterator<Item = Rule>>(rules: T) -> Self {
        let mut set = Self::default();
        for rule in rules {
            set.0 |= rule.bit();
        }
        set
    }
}

/// How many values of a field speak for each rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Evidence([i64; Rule::ALL.len()]);

/// What evidence says about a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ruling {
    /// Too few values say anything.
    Open,
    /// All of them say this.
    Found(Rule),
    /// Some say one thing and some the other.
    Contradicted,
}

impl Evidence {
    /// How many values speak for a rule.
    #[must_use]
    pub fn count(&self, rule: Rule) -> i64 {
        self.0[rule as usize]
    }

    /// Adds values that speak for a rule, or takes them back.
    pub fn add(&mut self, rule: Rule, values: i64) {
        let count = &mut self.0[rule as usize];
        *count = count.saturating_add(values).max(0);
    }

    /// The answer to a question, if `before` was the answer until now. A rule that was found needs
    /// no new evidence; it is lost when a value contradicts it.
    #[must_use]
    pub fn ruling(&self, question: Question, before: Option<Rule>) -> Ruling {
        let [first, second] = question.rules();
        let counts = [self.count(first), self.count(second)];
        if question == Question::Midnight {
            // A value with another time than midnight can be no date.
            return match counts {
                [_, moments] if moments > 0 => Ruling::Found(Rule::Moments),
                _ if before == Some(Rule::Moments) => Ruling::Found(Rule::Moments),
                [dates, _] if dates >= ENOUGH => Ruling::Found(Rule::Dates),
                _ if before == Some(Rule::Dates) => Ruling::Found(Rule::Dates),
                _ => Ruling::Open,
            };
        }
        match counts {
            [of_first, of_second] if of_first > 0 && of_second > 0 => Ruling::Contradicted,
            [of_first, 0] if of_first >= ENOUGH => Ruling::Found(first),
            [0, of_second] if of_second >= ENOUGH => Ruling::Found(second),
            [_, 0] if before == Some(first) => Ruling::Found(first),
            [0, _] if before == Some(second) => Ruling::Found(second),
            // One value against a rule that was found withdraws it.
            _ if before.is_some() => Ruling::Contradicted,
            _ => Ruling::Open,
        }
    }
}
