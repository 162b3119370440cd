//! What `init` asks of the shop beside the workspace: its time zone, its currency, and where alerts
//! are mailed. Each may be given as an option; without a terminal nothing is asked, and no currency
//! is guessed.

use jiff::tz::TimeZone;
use secrecy::{ExposeSecret, SecretString};

use super::ask;
use crate::cli::{locale, output};
use crate::text::locale::Locale;

/// The options of the shop.
#[derive(Debug, clap::Args)]
pub(super) struct ShopArgs {
    /// The time zone of the shop, for example Europe/Berlin; init asks if the machine's is UTC
    #[arg(long, value_name = "ZONE", value_parser = time_zone)]
    pub(super) time_zone: Option<String>,
    /// The currency of amounts, a code such as EUR or a sign
    #[arg(long, value_name = "CODE")]
    pub(super) currency: Option<String>,
}

/// Parses the IANA name of a time zone.
fn time_zone(name: &str) -> Result<String, String> {
    match TimeZone::get(name.trim()) {
        Ok(_) => Ok(name.trim().to_owned()),
        Err(_) => Err("write a name such as Europe/Berlin or America/New_York".to_owned()),
    }
}

/// What is known of the shop.
#[derive(Default)]
pub(super) struct Shop {
    pub(super) time_zone: Option<String>,
    pub(super) locale: Option<String>,
    pub(super) currency: Option<String>,
    pub(super) mail: Option<AlertMail>,
}

/// Where alerts are mailed, and through which server.
pub(super) struct AlertMail {
    pub(super) to: String,
    pub(super) server: String,
    /// The user name and the password at the server, as the file of a login holds them.
    pub(super) login: Option<SecretString>,
}

/// Asks what no option says.
pub(super) async fn ask(args: &ShopArgs) -> anyhow::Result<Shop> {
    let mut shop = Shop {
        time_zone: args.time_zone.clone().or_else(zone_of_machine),
        locale: locale_of_machine(),
        currency: args.currency.clone(),
        mail: None,
    };
    if !ask::is_possible() {
        return Ok(shop);
    }
    if shop.time_zone.is_none() {
        shop.time_zone = ask_zone().await?;
    }
    if shop.currency.is_none() {
        shop.currency = ask_currency().await?;
    }
    shop.mail = ask_mail().await?;
    Ok(shop)
}

/// The zone of the machine, unless it is UTC, which few shops have.
fn zone_of_machine() -> Option<String> {
    let zone = TimeZone::system();
    let name = zone.iana_name()?;
    let is_utc = ["UTC", "Etc/UTC", "Etc/UCT", "Etc/Universal", "Etc/Zulu"].contains(&name);
    (!zone.is_unknown() && !is_utc).then(|| name.to_owned())
}

/// The locale of the machine, if it is known, as the configuration has it: `de_DE.UTF-8` is `de-DE`.
fn locale_of_machine() -> Option<String> {
    let lang = std::env::var("LANG").ok()?;
    Locale::named(&lang)?;
    let name = lang.split(['.', '@']).next()?;
    Some(name.replace('_', "-"))
}

async fn ask_zone() -> anyhow::Result<Option<String>> {
    let question = "Time zone of the shop, for example Europe/Berlin (Enter: UTC): ";
    loop {
        let typed = answer(question).await?;
        if typed.is_empty() {
            return Ok(None);
        }
        match time_zone(&typed) {
            Ok(name) => return Ok(Some(name)),
            Err(why) => output::print_note(&format!("this zone is unknown: {why}")),
        }
    }
}

async fn ask_currency() -> anyhow::Result<Option<String>> {
    let usual = locale::currency();
    let question = match usual {
        Some(usual) => format!("Currency of the shop (Enter: {usual}): "),
        None => "Currency of the shop, for example EUR (Enter: none): ".to_owned(),
    };
    let typed = answer(&question).await?;
    if typed.is_empty() {
        return Ok(usual.map(str::to_owned));
    }
    Ok(Some(typed))
}

async fn ask_mail() -> anyhow::Result<Option<AlertMail>> {
    if !cfg!(feature = "email") {
        return Ok(None);
    }
    let mut to = answer("Mail address for alerts (Enter: none): ").await?;
    while !to.is_empty() && !is_mail_address(&to) {
        output::print_note("this is no mail address: write it as in boss@example.com");
        to = answer("Mail address for alerts (Enter: none): ").await?;
    }
    if to.is_empty() {
        return Ok(None);
    }
    let server = answer("Mail server, for example smtp.example.com: ").await?;
    let user = answer("User name at the mail server (Enter: no login): ").await?;
    let mut login = None;
    if !user.is_empty() {
        let password = ask::secret("Password at the mail server (it is not shown): ").await?;
        let password = password.expose_secret().trim();
        login = Some(SecretString::from(format!("{user}\n{password}\n")));
    }
    Ok(Some(AlertMail { to, server, login }))
}

/// Whether this may be a mail address; only the server knows whether it is one.
fn is_mail_address(text: &str) -> bool {
    match text.split_once('@') {
        Some((name, host)) => !name.is_empty() && !host.is_empty() && !text.contains(' '),
        None => false,
    }
}

async fn answer(question: &str) -> anyhow::Result<String> {
    Ok(ask::line(question).await?.trim().to_owned())
}
