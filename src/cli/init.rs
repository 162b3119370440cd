//! `init`: asks for the address and the key of a workspace, tries them, and writes the configuration
//! and the key file.
//!
//! It never overwrites a file. If it fails or is cancelled, it leaves nothing behind.

mod ask;
mod files;
mod service;
mod text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::ValueHint;
use jiff::tz::TimeZone;
use secrecy::{ExposeSecret, SecretString};
use tokio::signal::unix::{SignalKind, signal};

use super::check::workspace::greet;
use super::direct::DirectClient;
use super::exit::{self, ExitError, refuse};
use super::signals::StopSignals;
use super::{output, runtime};
use crate::api::{Class, Client, HttpTransport};
use crate::clock::Clock;
use crate::config::{Config, KeySource, checked_key, workspace_address};
use crate::poll::clock_advice;
use files::{Files, KeyFile, Readers};
use service::Service;

/// How often a wrong answer is asked again.
const TRIES: u32 = 5;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The workspace's address, for example https://myshop.example.com/api; asked for if absent
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    address: Option<String>,
    /// A file that holds the API key, or - for standard input; the key is asked for if absent
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    key_file: Option<PathBuf>,
    /// Enable and start the systemd service; the configuration is then in /etc/shopmirror
    #[arg(long)]
    systemd: bool,
}

/// What the workspace accepted.
struct Accepted {
    config: Config,
    text: String,
    key: SecretString,
    /// What the workspace said.
    said: String,
}

/// Asks, tries, writes, and prints what happens next.
pub(super) fn run(place: Option<PathBuf>, args: &Args) -> anyhow::Result<ExitCode> {
    let files = Files::plan(place, args.systemd, args.key_file.as_deref())?;
    let service = args.systemd.then(|| Service::of(&files.config)).transpose()?;
    if !ask::is_possible() && (args.address.is_none() || args.key_file.is_none()) {
        return refuse(
            exit::USAGE,
            "there is no terminal to ask on: give the address with --address URL, and the key with --key-file FILE, or with --key-file - on standard input",
        );
    }
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        tokio::select! {
            // Signals are watched before the first question.
            biased;
            cancelled = cancelled() => Err(cancelled),
            accepted = accepted(&files, args) => accepted,
        }
    });
    // A thread may still wait for the terminal. From here on signals do not interrupt the writing.
    runtime.shutdown_background();
    let Accepted { config, text, key, said } = outcome?;
    output::text(&format!("ok     {}\n", output::plain(&said)))?;
    let readers = match files.write(&text, &key)? {
        Readers::User => "(only you may read the key)",
        Readers::Group(_) => "(mode 0640, for the group of the folder)",
    };
    for file in files.written() {
        let file = output::plain(&file.display().to_string());
        output::text(&format!("wrote  {file} {readers}\n"))?;
    }
    output::text(&output::plain(&text::next(&config, &files.config, service.as_ref())))?;
    if let Some(service) = service {
        service.start()?;
        let look = text::look(&files.config);
        output::text(&output::plain(&format!("\nThe service runs. Look at it:  {look}\n")))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The error after Ctrl-C or another signal that ends programs.
async fn cancelled() -> anyhow::Error {
    let wait = async {
        let mut stop = StopSignals::new()?;
        let mut hangup = signal(SignalKind::hangup())?;
        tokio::select! {
            () = stop.next() => {}
            _ = hangup.recv() => {}
        }
        Ok::<(), std::io::Error>(())
    };
    match wait.await {
        Ok(()) => ask::cancelled().into(),
        Err(error) => error.into(),
    }
}

/// An address and a key that the workspace accepts. What was asked for is asked again if it is wrong.
async fn accepted(files: &Files, args: &Args) -> anyhow::Result<Accepted> {
    let mut address = args.address.as_deref().map(checked_address).transpose()?;
    let mut key = None;
    for tries_left in (0..TRIES).rev() {
        let url = match address.take() {
            Some(url) => url,
            None => asked_address().await?,
        };
        let text = text::config(&url, &files.key_name(), &TimeZone::system());
        let config = Config::of_text(&text, &files.config)?;
        let secret = match key.take() {
            Some(secret) => secret,
            None => given_key(files, args).await?,
        };
        output::aside(&format!("trying {url} ..."));
        let (class, code, said) = match attempt(&config, &secret).await? {
            Ok(said) => return Ok(Accepted { config, text, key: secret, said }),
            Err(refused) => refused,
        };
        let wrong_key = matches!(class, Class::KeyRefused | Class::KeyForbidden);
        let asked = if wrong_key { args.key_file.is_none() } else { args.address.is_none() };
        if !asked || tries_left == 0 {
            let text = format!("{said}; nothing was written");
            return refuse(code, text);
        }
        output::aside(&said);
        if wrong_key {
            address = Some(url);
        } else {
            key = Some(secret);
        }
    }
    Err(ask::cancelled().into())
}

type Refused = (Class, u8, String);

/// Asks the workspace whether it knows the key; costs one request, two if the key may not poll.
async fn attempt(config: &Config, key: &SecretString) -> anyhow::Result<Result<String, Refused>> {
    let transport = Arc::new(HttpTransport::new(&config.workspace)?);
    let clock = Clock::system();
    let client =
        Client::new(&config.workspace, &config.poll, transport, key.clone(), clock.clone());
    let greeting = greet(&mut DirectClient::with(client, clock, config)).await;
    if let Some(ahead_s) = greeting.ahead_s {
        output::aside(&clock_advice(ahead_s));
    }
    Ok(greeting.result.map_err(|(error, text)| {
        let text = match error.class() {
            Class::KeyRefused => "the workspace refused this key: copy the current automation key from the portal's integrations settings".to_owned(),
            _ => text,
        };
        (error.class(), exit::code_of_api(&error), text)
    }))
}

async fn asked_address() -> anyhow::Result<String> {
    for _ in 0..TRIES {
        let line =
            ask::line("Address of the workspace, for example https://myshop.example.com/api: ");
        match checked_address(&line.await?) {
            Ok(url) => return Ok(url),
            Err(error) => output::aside(&format!("{error:#}")),
        }
    }
    Err(ask::cancelled().into())
}

/// The address with what may be left out when it is typed: `https://` and `/api`.
fn checked_address(text: &str) -> anyhow::Result<String> {
    let text = text.trim();
    let mut text = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    if let Ok(mut url) = url::Url::parse(&text)
        && url.path().trim_matches('/').is_empty()
    {
        url.set_path("/api");
        text = url.into();
    }
    let wrong = |why| ExitError { code: exit::USAGE, text: format!("the address {why}") };
    Ok(workspace_address(&text).map_err(wrong)?.into())
}

async fn given_key(files: &Files, args: &Args) -> anyhow::Result<SecretString> {
    match (&files.key, args.key_file.as_deref()) {
        (KeyFile::InPlace(path), _) => Ok(KeySource::File(path.clone()).read()?),
        (KeyFile::New(_), Some(path)) if path != Path::new("-") => {
            Ok(KeySource::File(path.to_owned()).read()?)
        }
        (KeyFile::New(_), Some(_)) if !ask::is_possible() => {
            let text = ask::whole_input().await?;
            Ok(checked_key(text.expose_secret(), "standard input")?)
        }
        (KeyFile::New(_), _) => asked_key().await,
    }
}

async fn asked_key() -> anyhow::Result<SecretString> {
    for _ in 0..TRIES {
        let typed = ask::secret("Automation key of the workspace (it is not shown): ").await?;
        match checked_key(typed.expose_secret(), "the typed key") {
            Ok(key) => return Ok(key),
            Err(error) => output::aside(&error.to_string()),
        }
    }
    Err(ask::cancelled().into())
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
            assert_eq!(checked_address(text).unwrap(), "https://myshop.example.com/api", "{text}");
        }
        for text in ["", "http://myshop.example.com", "myshop.example.com/shop", "my shop", "a@b"] {
            let error = checked_address(text).unwrap_err();
            assert_eq!(exit::code_of(&error), exit::USAGE, "{text}: {error}");
            assert!(error.to_string().starts_with("the address "), "{error}");
        }
    }
}
