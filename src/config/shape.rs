//! Reads in which shape a sink sends a change: `format` and the keys that belong to it.
//!
//! A template is compiled here, so that `check` reports what is wrong with it without any change. It
//! may hold a token, so that no message quotes it.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use super::Base;
use super::section::{Found, Section};
use crate::shape::{CloudEvents, Escape, Format, Mode, NAMES, Template};

/// A template file longer than this is refused before it is compiled.
const FILE_MAX: u64 = 256 * 1024;
const MEDIA_TYPE_MAX: usize = 100;
const SOURCE_MAX: usize = 300;

/// The words of `format`.
#[derive(Clone, Copy)]
enum Word {
    Standard,
    CloudEvents,
    Raw,
    Template,
}

/// The shape of a webhook's body; `None` only if a problem was noted. `workspace` is what CloudEvents
/// name as the source unless the key `source` says otherwise.
pub(super) fn read(section: &mut Section<'_>, base: &Base, workspace: &str) -> Option<Format> {
    let words = [
        ("standard", Word::Standard),
        ("cloudevents", Word::CloudEvents),
        ("raw", Word::Raw),
        ("template", Word::Template),
    ];
    match word(section, &words)? {
        Word::Standard => Some(Format::Standard),
        Word::Raw => Some(Format::Raw),
        Word::CloudEvents => {
            let modes = [("structured", Mode::Structured), ("binary", Mode::Binary)];
            let mode = section.word("mode", &modes).unwrap_or(Mode::Structured);
            Some(Format::CloudEvents(CloudEvents { mode, source: source(section, workspace) }))
        }
        Word::Template => shaped_by_template(section, base),
    }
}

/// The shape of what a program gets on its standard input; with `template`, also a template.
pub(super) fn of_lines(
    section: &mut Section<'_>,
    base: &Base,
    workspace: &str,
    template: bool,
) -> Option<Format> {
    let words = [
        ("standard", Word::Standard),
        ("cloudevents", Word::CloudEvents),
        ("raw", Word::Raw),
        ("template", Word::Template),
    ];
    let allowed = if template { &words[..] } else { &words[..3] };
    match word(section, allowed)? {
        Word::Standard => Some(Format::Standard),
        Word::Raw => Some(Format::Raw),
        Word::CloudEvents => {
            let source = source(section, workspace);
            Some(Format::CloudEvents(CloudEvents { mode: Mode::Structured, source }))
        }
        Word::Template => shaped_by_template(section, base),
    }
}

/// The word of `format`; `None` if it is not one of these.
fn word(section: &mut Section<'_>, words: &[(&str, Word)]) -> Option<Word> {
    let held = section.holds("format");
    let word = section.word("format", words);
    if held { word } else { Some(Word::Standard) }
}

fn shaped_by_template(section: &mut Section<'_>, base: &Base) -> Option<Format> {
    let content_type = content_type(section);
    let escape = Escape::of_media_type(&content_type);
    let keys = ["template", "template_file"];
    let template = template(section, base, keys, escape, &NAMES)?;
    Some(Format::Template { template, content_type })
}

/// The attribute `source` of CloudEvents.
pub(super) fn source(section: &mut Section<'_>, workspace: &str) -> String {
    let Some(Found { value, place }) = section.text("source") else { return workspace.to_owned() };
    if value.len() > SOURCE_MAX || !value.bytes().all(|b| b.is_ascii_graphic()) {
        let message = format!(
            "`source` must be an address or a path of at most {SOURCE_MAX} visible ASCII characters, for example \"/shops/north\""
        );
        section.findings.note(&place, message);
    }
    value.to_owned()
}

fn content_type(section: &mut Section<'_>) -> String {
    let Some(Found { value, place }) = section.text("content_type") else {
        return "application/json".to_owned();
    };
    let visible = value.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
    if !visible || value.len() > MEDIA_TYPE_MAX || !value.contains('/') {
        let message = "`content_type` is not a media type: write for example \"application/json\" or \"text/plain; charset=utf-8\"";
        section.findings.note(&place, message);
    }
    value.to_owned()
}

/// A template that is given directly or by a file; `None` only if a problem was noted.
pub(super) fn template(
    section: &mut Section<'_>,
    base: &Base,
    [key, file_key]: [&'static str; 2],
    escape: Escape,
    names: &[&str],
) -> Option<Template> {
    let direct = section.secret_lines(key);
    let file = section.text(file_key);
    match (section.holds(key), section.holds(file_key)) {
        (false, false) => section.missing(
            key,
            &format!("what to send, with values in {{{{ }}}}; or name its file with {file_key}"),
        ),
        (true, true) => {
            section.note(format!("give `{key}` or `{file_key}`, not both"));
        }
        _ => {}
    }
    if let Some(Found { value, place }) = direct {
        return compiled(section, key, value, &place, escape, names);
    }
    let Found { value, place } = file?;
    match file_text(&base.dir.join(value)) {
        Ok(text) => compiled(section, file_key, &text, &place, escape, names),
        Err(why) => {
            section.findings.note(&place, format!("`{file_key}`: {why}"));
            None
        }
    }
}

fn compiled(
    section: &Section<'_>,
    key: &str,
    text: &str,
    place: &Range<usize>,
    escape: Escape,
    names: &[&str],
) -> Option<Template> {
    match Template::compile(text, escape, names) {
        Ok(template) => Some(template),
        Err(error) => {
            section.findings.note_secret(place, format!("`{key}`: {error}"));
            None
        }
    }
}

fn file_text(path: &Path) -> Result<String, String> {
    let unreadable = |why: std::io::Error| {
        format!(
            "cannot read {}: {why}; it must exist, and the user of the service must be able to read it",
            path.display()
        )
    };
    // Checked before the file is opened, because opening a pipe would wait for its writer.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(format!("{} is not a regular file", path.display()));
    }
    let mut text = String::new();
    let file = File::open(path).map_err(unreadable)?;
    let length = file.take(FILE_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if length as u64 > FILE_MAX {
        return Err(format!("{} is longer than {FILE_MAX} bytes", path.display()));
    }
    // An editor ends the last line; that end is no part of what is sent.
    Ok(text.trim_end_matches('\n').to_owned())
}
