//! Templates of the operator: compiled once, strict about names, bounded in work and output.
//!
//! A template is part of the configuration; the values in it come from customers. So a value is
//! always escaped for the kind of text that the template writes, and no filter switches that off.

use std::fmt;
use std::io;
use std::sync::Arc;

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, HtmlEscape, UndefinedBehavior, Value};
use serde::de::IgnoredAny;

use super::json_slots::{CLOSE, OPEN, fill};
use super::values::Context;

/// The longest output, in bytes.
const OUTPUT_MAX: usize = 256 * 1024;
/// The most steps of one run.
const FUEL: u64 = 50_000;
/// The only template of an environment: there is nothing to include.
const NAME: &str = "template";

/// What kind of text a template writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// JSON: a value is escaped inside a string, and is JSON elsewhere; the output must be JSON.
    Json,
    /// HTML or XML.
    Html,
    /// Plain text: nothing is escaped.
    Text,
}

impl Escape {
    /// The kind that a media type asks for.
    #[must_use]
    pub fn for_media_type(media_type: &str) -> Self {
        let essence = media_type
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        if essence.ends_with("/json") || essence.ends_with("+json") {
            Self::Json
        } else if essence.ends_with("html")
            || essence.ends_with("/xml")
            || essence.ends_with("+xml")
        {
            Self::Html
        } else {
            Self::Text
        }
    }
}

/// Why a template cannot be used, or failed for one change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct TemplateError {
    /// Where in the template: line and column from 1; `None` if the whole of it is meant.
    pub at: Option<(usize, usize)>,
    /// What is wrong and what to do. It never holds a value of a record.
    pub problem: String,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((line, column)) = self.at {
            write!(f, "line {line}, column {column} of ")?;
        }
        write!(f, "the template: {}", self.problem)
    }
}

/// One compiled template.
#[derive(Clone)]
pub struct Template {
    compiled: Arc<Compiled>,
}

struct Compiled {
    environment: Environment<'static>,
    source: String,
    escape: Escape,
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It may hold a token, as a webhook's address may.
        write!(
            f,
            "Template({:?}, {} bytes)",
            self.compiled.escape,
            self.compiled.source.len()
        )
    }
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.compiled.escape == other.compiled.escape
            && self.compiled.source == other.compiled.source
    }
}

impl Eq for Template {}

impl Default for Template {
    /// An empty text.
    fn default() -> Self {
        Self::compile("", Escape::Text, &[]).expect("an empty template has no mistake")
    }
}

impl Template {
    /// Reads a template that may use `names`, and finds what can be found without a change:
    /// mistakes of syntax, unknown filters and tests, and unknown names.
    ///
    /// # Errors
    /// The first problem.
    pub fn compile(source: &str, escape: Escape, names: &[&str]) -> Result<Self, TemplateError> {
        if let Some(at) = source.find([OPEN, CLOSE, '\0']) {
            let problem = "a control character stands here: remove it".to_owned();
            return Err(TemplateError {
                at: Some(place(source, at)),
                problem,
            });
        }
        let mut environment = environment(escape);
        environment
            .add_template_owned(NAME, source.to_owned())
            .map_err(|error| explained(&error, source))?;
        let compiled = environment
            .get_template(NAME)
            .map_err(|error| explained(&error, source))?;
        find_unknown_words(&environment, source)?;
        let mut allowed: Vec<&str> = names.to_vec();
        allowed.extend(environment.globals().map(|(name, _)| name));
        let mut unknown = compiled.undeclared_variables(false);
        unknown.retain(|name| !allowed.contains(&name.as_str()));
        if let Some(name) = unknown.into_iter().min() {
            return Err(TemplateError {
                at: None,
                problem: format!(
                    "there is no `{name}`; a template may use: {}",
                    names.join(", ")
                ),
            });
        }
        Ok(Self {
            compiled: Arc::new(Compiled {
                environment,
                source: source.to_owned(),
                escape,
            }),
        })
    }

    /// The text that the template makes.
    ///
    /// # Errors
    /// The first problem, with its place. It names no value of the record.
    pub fn render(&self, context: &Context) -> Result<String, TemplateError> {
        let Compiled {
            environment,
            source,
            escape,
        } = &*self.compiled;
        let mut output = Bounded(Vec::new());
        environment
            .get_template(NAME)
            .and_then(|template| template.render_captured_to(context.0.clone(), &mut output))
            .map_err(|error| explained(&error, source))?;
        let text = String::from_utf8(output.0).expect("a template writes text");
        if *escape != Escape::Json {
            return Ok(text);
        }
        let text = fill(&text);
        match serde_json::from_str::<IgnoredAny>(&text) {
            Ok(_) => Ok(text),
            Err(error) => Err(TemplateError {
                at: None,
                problem: format!(
                    "its output is not JSON at line {}, column {}; `shopmirror sinks NAME test \
                     --dry-run` shows it",
                    error.line(),
                    error.column()
                ),
            }),
        }
    }
}

/// Refuses a filter or a test that does not exist, also in a branch that no change may reach for
/// weeks: the engine itself looks each one up when it is used.
fn find_unknown_words(environment: &Environment<'_>, source: &str) -> Result<(), TemplateError> {
    let mut words = environment.empty_state();
    // What the next name is of.
    let mut expected = Word::Name;
    let mut is_begin = false;
    let mut is_field = false;
    for token in tokenize(source, false, SyntaxConfig::default()) {
        let (token, span) = token.map_err(|error| explained(&error, source))?;
        let begins_block = matches!(token, Token::BlockStart);
        let before_field = matches!(token, Token::Dot);
        expected = match (token, expected) {
            (Token::Pipe, _) => Word::Filter,
            (Token::Ident("filter"), _) if is_begin => Word::Filter,
            (Token::Ident("is"), Word::Name) if !is_field => Word::Test,
            (Token::Ident("not"), Word::Test) => Word::Test,
            (Token::Ident(name), word @ (Word::Filter | Word::Test)) => {
                let (kind, found) = match word {
                    Word::Test => ("test", words.perform_test(name, &[]).err()),
                    _ => ("filter", words.apply_filter(name, &[]).err()),
                };
                let kinds = [ErrorKind::UnknownFilter, ErrorKind::UnknownTest];
                if found.is_some_and(|error| kinds.contains(&error.kind())) {
                    return Err(TemplateError {
                        at: Some(place(source, span.start_offset as usize)),
                        problem: format!("{kind} {name} is unknown: correct or remove it"),
                    });
                }
                Word::Name
            }
            _ => Word::Name,
        };
        is_begin = begins_block;
        is_field = before_field;
    }
    Ok(())
}

/// What a name of a template is, by what stands before it.
#[derive(Clone, Copy)]
enum Word {
    /// A value.
    Name,
    /// A filter.
    Filter,
    /// A test.
    Test,
}

fn environment(escape: Escape) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_debug(false);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    // Text from a record is never taken for text of the template.
    environment.remove_filter("safe");
    environment.add_filter("entities", entities);
    environment.add_filter("markdown", markdown);
    environment.set_auto_escape_callback(move |_| match escape {
        Escape::Json => AutoEscape::Custom("json".into()),
        Escape::Html => AutoEscape::Html,
        Escape::Text => AutoEscape::None,
    });
    // It ignores a block `autoescape`.
    environment.set_formatter(move |output, _, value| {
        if value.is_safe() && escape != Escape::Text {
            // A block or a macro of the template captured it: its values are escaped already.
            return Ok(output.write_str(value.as_str().unwrap_or_default())?);
        }
        match escape {
            Escape::Json => Ok(write!(output, "{OPEN}{}{CLOSE}", json(value)?)?),
            Escape::Html => Ok(write!(output, "{}", HtmlEscape(&plain(value)?))?),
            Escape::Text => Ok(output.write_str(&plain(value)?)?),
        }
    });
    environment
}

/// The text with `&`, `<` and `>` as entities: chat systems read markup and mentions between them.
fn entities(value: &Value) -> Result<String, Error> {
    if value.is_undefined() {
        return Err(ErrorKind::UndefinedError.into());
    }
    let text = value.as_str().ok_or(ErrorKind::InvalidOperation)?;
    Ok(text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;"))
}

/// The text as Markdown shows it, with no markup, link or mention of its own.
///
/// A backslash takes the meaning of a character; chat systems make links of what only looks like an
/// address, so an invisible word joiner divides it.
fn markdown(value: &Value) -> Result<String, Error> {
    if value.is_undefined() {
        return Err(ErrorKind::UndefinedError.into());
    }
    let text = plain(value)?;
    let mut shown = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    let mut is_in_word = false;
    while let Some(character) = characters.next() {
        if "\\`*_~[]<>|#".contains(character) {
            shown.push('\\');
        }
        shown.push(character);
        let next = characters.peek().copied().unwrap_or(' ');
        let may_be_link = match character {
            '@' => !next.is_whitespace(),
            ':' => next == '/',
            '.' => is_in_word && next.is_alphabetic(),
            _ => false,
        };
        if may_be_link {
            shown.push('\u{2060}');
        }
        is_in_word = character.is_alphanumeric();
    }
    Ok(shown)
}

fn json(value: &Value) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|_| ErrorKind::BadSerialization.into())
}

/// A value as people read it: a list with commas, nothing for null. A nested value is JSON.
fn plain(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::None | ValueKind::Undefined => Ok(String::new()),
        ValueKind::Seq | ValueKind::Iterable => list(value),
        // `to_string` would write a bool as `True`.
        ValueKind::Map | ValueKind::Bool => json(value),
        _ => Ok(value.to_string()),
    }
}

/// The items of a list with commas, without nulls; a list that holds a list or an object is JSON.
fn list(value: &Value) -> Result<String, Error> {
    let mut items = Vec::new();
    for item in value.try_iter()? {
        match item.kind() {
            ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => return json(value),
            ValueKind::None => {}
            _ => items.push(plain(&item)?),
        }
    }
    Ok(items.join(", "))
}

/// Takes a template's output up to a limit.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > OUTPUT_MAX {
            return Err(io::Error::other("the output is too long"));
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The problem in our words where there are better ones. The engine's own texts name types and
/// words of the template, never values.
fn explained(error: &Error, source: &str) -> TemplateError {
    let at = match error.range() {
        Some(range) => Some(place(source, range.start)),
        None => error.line().map(|line| (line, 1)),
    };
    let problem = match error.kind() {
        ErrorKind::UndefinedError => {
            let name = undefined_name(error, source).unwrap_or("a name");
            format!(
                "`{name}` is not defined for this change; use `… is defined` or `|default(\"\")` \
                 if it may be absent"
            )
        }
        ErrorKind::WriteFailure => {
            format!("its output is longer than {OUTPUT_MAX} bytes: make it shorter")
        }
        ErrorKind::OutOfFuel => {
            format!("it takes more than {FUEL} steps: remove a loop, or loop over less")
        }
        ErrorKind::TemplateNotFound => {
            "a template cannot include or extend another one: write it in one piece".to_owned()
        }
        kind => match error.detail() {
            Some(detail) if kind == ErrorKind::SyntaxError => detail.to_owned(),
            Some(detail) if [ErrorKind::UnknownFilter, ErrorKind::UnknownTest].contains(&kind) => {
                format!("{detail}: correct or remove it")
            }
            // A detail of a run may quote a value.
            _ => kind.to_string(),
        },
    };
    TemplateError { at, problem }
}

/// The name that is not defined; where the engine points at a filter, the name before it.
fn undefined_name<'s>(error: &Error, source: &'s str) -> Option<&'s str> {
    let range = error.range()?;
    match filtered_name(source.get(..range.start)?) {
        "" => source.get(range),
        name => Some(name),
    }
}

/// The name before a filter, from the text before the filter's own name; empty if there is none.
fn filtered_name(before: &str) -> &str {
    let Some(value) = before.trim_end().strip_suffix('|') else {
        return "";
    };
    let value = value.trim_end();
    let rest = value.trim_end_matches(|c: char| c.is_alphanumeric() || matches!(c, '_' | '.'));
    &value[rest.len()..]
}

/// Line and column, from 1, in characters.
fn place(source: &str, offset: usize) -> (usize, usize) {
    let before = &source[..source.floor_char_boundary(offset)];
    let line = before.matches('\n').count() + 1;
    let line_text = before.rsplit('\n').next().unwrap_or_default();
    (line, line_text.chars().count() + 1)
}

#[cfg(test)]
mod tests;
