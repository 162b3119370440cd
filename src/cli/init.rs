//! `init`: asks for the address and the key of a workspace, tries them, and writes the
//! configuration and the key file.
//!
//! If the configuration exists, it changes only the keys that its options name, and tries nothing.
//! It overwrites no other file. If it fails or is cancelled, it leaves nothing behind.

#[cfg(feature = "s3")]
mod age_key;
mod ask;
mod change;
mod files;
mod shop;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::ValueHint;
use secrecy::{ExposeSecret, SecretString};

use super::check::unit::Unit;
use super::check::workspace::greet;
use super::direct::DirectClient;
use super::exit::{self, refuse};
use super::signals::StopSignals;
use super::{output, runtime};
use crate::api::Class;
use crate::config::{Config, KeySource, checked_key, workspace_address};
use crate::poll::clock_advice;
use change::Change;
use files::{Contents, Files};
use shop::{Shop, ShopArgs};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The workspace's address, for example https://myshop.example.com/api; without it, init asks
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    address: Option<String>,
    /// A file that holds the API key; without it, init asks for the key
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    key_file: Option<PathBuf>,
    /// Print a new pair of keys for off-site backups, and change nothing
    #[cfg(feature = "s3")]
    #[arg(long, exclusive = true)]
    new_age_key: bool,
    #[command(flatten)]
    shop: ShopArgs,
}

/// Asks, tries, writes, and prints what happens next.
pub(super) fn run(place: Option<PathBuf>, args: &Args) -> anyhow::Result<ExitCode> {
    #[cfg(feature = "s3")]
    if args.new_age_key {
        return age_key::run();
    }
    let place = Files::place(place);
    let changes = changes(args)?;
    if args.key_file.is_none() && !changes.is_empty() && place.is_file() {
        change::apply(&place, &changes)?;
        let path = output::plain(&place.display().to_string());
        return output::text(&format!("changed  {path}\nnext: shopmirror check\n"));
    }
    let files = Files::plan(place, args.key_file.as_deref())?;
    if !ask::is_possible() && (args.address.is_none() || args.key_file.is_none()) {
        return refuse(
            exit::USAGE,
            "there is no terminal to ask on: give the address with --address URL, and the key with \
             --key-file FILE",
        );
    }
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        // Signals are watched before the first question.
        let mut signals = StopSignals::new()?;
        tokio::select! {
            biased;
            () = signals.next() => Err(ask::cancelled()),
            answers = ask_all(&files, args) => answers,
        }
    });
    // A thread may still wait for the terminal. From here on signals do not interrupt the writing.
    runtime.shutdown_background();
    let Answers {
        contents,
        workspace,
    } = outcome?;
    output::text(&format!("ok     {}\n", output::plain(&workspace)))?;
    let (group, new_files) = files.write(&contents)?;
    let readers = match group {
        None => "(only you may read the key)",
        Some(_) => "(mode 0640, for the group of the folder)",
    };
    for file in new_files {
        let file = output::plain(&file.display().to_string());
        output::text(&format!("wrote  {file} {readers}\n"))?;
    }
    let start = Unit::of_config(&files.config).map(|unit| enable(&unit));
    let next = text::next(&files.config, start.as_deref());
    output::text(&output::plain(&next))
}

/// The answers of the operator, which the workspace has accepted.
struct Answers {
    contents: Contents,
    /// How the workspace described itself.
    workspace: String,
}

/// Asks for the address and the key, and tries them; costs one request.
async fn ask_all(files: &Files, args: &Args) -> anyhow::Result<Answers> {
    let question = "Address of the workspace, for example https://myshop.example.com/api: ";
    let url = match &args.address {
        Some(text) => checked_address(text)?,
        None => checked_address(&ask::line(question).await?)?,
    };
    let text = text::config(&url, &files.key_name(), None, &Shop::default());
    let config = Config::parse_file_text(&text, &files.config)?;
    let key = match &args.key_file {
        Some(path) => KeySource::File(path.clone()).read()?,
        None => {
            let typed = ask::secret("Automation key of the workspace (it is not shown): ").await?;
            checked_key(typed.expose_secret(), "the typed key")?
        }
    };
    output::print_note(&format!("trying {url} ..."));
    let (workspace, ahead_s) = greet(&mut DirectClient::new(&config, key.clone())?).await;
    if let Some(ahead_s) = ahead_s {
        output::print_note(&clock_advice(ahead_s));
    }
    let error = match workspace {
        Ok(workspace) => {
            output::print_note(&format!("ok: {workspace}"));
            let shop = shop::ask(&args.shop).await?;
            return Ok(Answers {
                contents: contents(files, &url, key, shop)?,
                workspace,
            });
        }
        Err(error) => error,
    };
    let text = match error.class() {
        Class::KeyRefused => "the workspace refused this key: copy the current automation key \
                              from the portal's integrations settings"
            .to_owned(),
        _ => error.with_quotation(),
    };
    refuse(
        exit::code_of_api(&error),
        format!("{text}; nothing was written"),
    )
}

/// What the files are to hold; refuses what would be no configuration.
fn contents(
    files: &Files,
    url: &str,
    key: SecretString,
    mut shop: Shop,
) -> anyhow::Result<Contents> {
    let key_name = files.key_name();
    // Without the login: its file is not there yet.
    let text = text::config(url, &key_name, None, &shop);
    Config::parse_file_text(&text, &files.config)
        .context("an answer cannot be used, and nothing was written: run the same command again")?;
    let login = shop.mail.as_mut().and_then(|mail| mail.login.take());
    let mut login_name = None;
    if login.is_some() {
        login_name = Some(files.login_name());
    }
    Ok(Contents {
        config: text::config(url, &key_name, login_name.as_deref(), &shop),
        key,
        login,
    })
}

/// The keys that the options name.
fn changes(args: &Args) -> anyhow::Result<Vec<Change>> {
    let mut changes = Vec::new();
    if let Some(address) = &args.address {
        changes.push(Change {
            section: "workspace",
            key: "base_url",
            value: checked_address(address)?,
        });
    }
    if let Some(zone) = &args.shop.time_zone {
        changes.push(Change {
            section: "workspace",
            key: "time_zone",
            value: zone.clone(),
        });
    }
    if let Some(currency) = &args.shop.currency {
        changes.push(Change {
            section: "reports",
            key: "currency",
            value: currency.clone(),
        });
    }
    Ok(changes)
}

/// The command that starts the service, and the unit that watches its key, now and at each boot.
fn enable(unit: &Unit) -> String {
    let key = unit
        .name
        .replacen("shopmirror", "shopmirror-key", 1)
        .replace(".service", ".path");
    format!("systemctl enable --now {} {key}", unit.name)
}

/// The address with the parts that one need not type: `https://` and `/api`.
fn checked_address(text: &str) -> anyhow::Result<String> {
    let text = text.trim();
    let mut text = if text.contains("://") {
        text.to_owned()
    } else {
        format!("https://{text}")
    };
    if let Ok(mut url) = url::Url::parse(&text)
        && url.path().trim_matches('/').is_empty()
    {
        url.set_path("/api");
        text = url.into();
    }
    match workspace_address(&text) {
        Ok(address) => Ok(address.into()),
        Err(why) => refuse(exit::USAGE, format!("the address {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_typed_without_its_beginning_and_end() {
        for text in [
            "myshop.example.com",
            " https://myshop.example.com/ ",
            "myshop.example.com/api/",
            "https://myshop.example.com/api",
        ] {
            assert_eq!(
                checked_address(text).unwrap(),
                "https://myshop.example.com/api",
                "{text}"
            );
        }
        for text in [
            "",
            "http://myshop.example.com",
            "myshop.example.com/shop",
            "my shop",
            "a@b",
        ] {
            let error = checked_address(text).unwrap_err();
            assert_eq!(exit::code_of(&error), exit::USAGE, "{text}: {error}");
            assert!(error.to_string().starts_with("the address "), "{error}");
        }
    }
}
