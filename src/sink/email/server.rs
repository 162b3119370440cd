//! The conversation with a mail server, which `lettre` holds, and what its answers mean.
//!
//! Each step is sent by itself, so that a refusal says which one it was, and a mail reaches the
//! recipients that the server accepts. A mail that the server refuses (5xx) blames the change.
//! Everything else blames the server or the configuration: the connection, TLS, the login, the
//! sender, the recipients if all are refused, and every 4xx.

use std::error::Error as _;
use std::time::Duration;

use lettre::address::Envelope;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{
    AsyncSmtpConnection, Certificate, CertificateStore, Tls, TlsParameters,
};
use lettre::transport::smtp::commands::{Data, Mail as MailFrom, Rcpt};
use lettre::transport::smtp::extension::ClientId;
use secrecy::ExposeSecret;

use crate::config::{EmailSettings, MailTls};
use crate::net::tls::{authorities, problem_of};
use crate::sink::reason::{self, Secrets};
use crate::sink::{Preview, Verdict};

/// How long the goodbye may take; the mails have been accepted by then.
const QUIT_TIME: Duration = Duration::from_secs(2);

/// Where the mails of one sink go.
pub(super) struct Server {
    sink: String,
    host: String,
    port: u16,
    tls: Tls,
    login: Option<Credentials>,
    secrets: Secrets,
    timeout: Duration,
    /// Who sends the mails and who gets them.
    envelope: Envelope,
    /// The refused recipients that the log has, with the reasons.
    noted: Vec<String>,
}

impl Server {
    pub(super) fn build(
        sink: &str,
        settings: &EmailSettings,
        envelope: Envelope,
    ) -> Result<Self, String> {
        let login = settings
            .login
            .as_ref()
            .map(|(user, secret)| (user, secret.expose_secret()));
        Ok(Self {
            sink: sink.to_owned(),
            host: settings.server.clone(),
            port: settings.port,
            tls: tls(settings)?,
            secrets: match login {
                Some((user, password)) => Secrets::new(reason::login(user, password)),
                None => Secrets::new([]),
            },
            login: login.map(|(user, password)| Credentials::new(user.clone(), password.into())),
            timeout: settings.timeout,
            envelope,
            noted: Vec::new(),
        })
    }

    pub(super) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    pub(super) fn limit(&self) -> (Duration, &'static str) {
        (
            self.timeout,
            "check the mail server, port and tls, or raise `timeout`",
        )
    }

    /// Sends one mail.
    pub(super) async fn send(&mut self, mail: &[u8]) -> Result<(), Verdict> {
        let (mut connection, mut refused) = self.begin().await.map_err(Verdict::fault)?;
        if refused.len() == self.envelope.to().len() {
            return Err(Verdict::fault(refused.swap_remove(0)));
        }
        let judge = |error: Error| {
            let text = self.explain("the mail", "its text says why", &error);
            if error.is_permanent() {
                Verdict::refused(text)
            } else {
                Verdict::fault(text)
            }
        };
        connection.command(Data).await.map_err(judge)?;
        connection.message(mail).await.map_err(judge)?;
        quit(connection).await;
        if refused != self.noted {
            for reason in &refused {
                let reason = self.secrets.reason(reason);
                tracing::warn!(
                    sink = self.sink,
                    reason,
                    "mails reach only the other recipients"
                );
            }
            self.noted = refused;
        }
        Ok(())
    }

    /// What [`Self::send`] would do.
    pub(super) fn preview(&self, mail: &[u8]) -> Preview {
        let to: Vec<String> = self.envelope.to().iter().map(ToString::to_string).collect();
        let how = format!(
            "mail to {} by {} port {}:",
            to.join(", "),
            self.host,
            self.port
        );
        Preview::of(how, String::from_utf8_lossy(mail))
    }

    /// Begins a mail, and sends none.
    pub(super) async fn probe(&self) -> Result<String, String> {
        let (connection, refused) = self.begin().await?;
        quit(connection).await;
        if !refused.is_empty() {
            return Err(refused.join("; "));
        }
        let login = if self.login.is_some() {
            "the login, "
        } else {
            ""
        };
        Ok(format!(
            "the mail server accepts {login}the sender and every recipient; no mail was sent"
        ))
    }

    /// Connects, and names the sender and the recipients to the server; returns why it refuses
    /// recipients.
    async fn begin(&self) -> Result<(AsyncSmtpConnection, Vec<String>), String> {
        let failed = |what, remedy| move |error: Error| self.explain(what, remedy, &error);
        let mut connection = self.connect().await?;
        let sender = MailFrom::new(self.envelope.from().cloned(), Vec::new());
        let remedy = "correct from, or let the server allow it";
        connection
            .command(sender)
            .await
            .map_err(failed("the sender", remedy))?;
        let mut refused = Vec::new();
        for recipient in self.envelope.to() {
            let taken = connection
                .command(Rcpt::new(recipient.clone(), Vec::new()))
                .await;
            if let Err(error) = taken {
                let text =
                    self.explain(&format!("the recipient {recipient}"), "correct to", &error);
                if !error.is_permanent() {
                    return Err(text);
                }
                refused.push(text);
            }
        }
        Ok((connection, refused))
    }

    /// A connection that is protected and logged in as configured.
    async fn connect(&self) -> Result<AsyncSmtpConnection, String> {
        let failed = |what, remedy| move |error: Error| self.explain(what, remedy, &error);
        let name = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        let hello = ClientId::Domain(name);
        let from_first = match &self.tls {
            Tls::Wrapper(parameters) => Some(parameters.clone()),
            _ => None,
        };
        let place = (self.host.as_str(), self.port);
        let connecting = AsyncSmtpConnection::connect_tokio1(place, None, &hello, from_first, None);
        let mut connection = connecting
            .await
            .map_err(failed("the connection", "ask who runs it"))?;
        if let Tls::Required(parameters) = &self.tls {
            let safe = connection.starttls(parameters.clone(), &hello).await;
            safe.map_err(
                |error| match error.is_client() && problem_of(&error).is_none() {
                    true => {
                        "the mail server offers no STARTTLS: set tls to \"tls\", or check the port"
                            .to_owned()
                    }
                    false => failed("STARTTLS", "check port and tls")(error),
                },
            )?;
        }
        if let Some(login) = &self.login {
            let taken = connection.auth(DEFAULT_MECHANISMS, login).await;
            taken.map_err(failed("the login", "correct login_file"))?;
        }
        Ok(connection)
    }

    /// Why a step failed.
    fn explain(&self, what: &str, remedy: &str, error: &Error) -> String {
        let said = error
            .source()
            .map_or_else(|| error.to_string(), ToString::to_string);
        let Some(code) = error.status() else {
            return match problem_of(error) {
                Some(words) => format!("no connection to the mail server: {words}"),
                None if error.is_response() => "the mail server closed the connection, or its answer is not SMTP; check port and tls".to_owned(),
                None => format!("{what} failed at the mail server, port {}: {said}", self.port),
            };
        };
        let said = reason::said(said.as_bytes(), true);
        if error.is_transient() {
            format!("the mail server postponed {what} ({code}); it is tried again{said}")
        } else {
            // Servers that demand a login say so at different steps.
            let login = if self.login.is_none() {
                ", or set login_file"
            } else {
                ""
            };
            format!("the mail server refused {what} ({code}): {remedy}{login}{said}")
        }
    }
}

/// Says goodbye.
async fn quit(mut connection: AsyncSmtpConnection) {
    let _ = tokio::time::timeout(QUIT_TIME, connection.quit()).await;
}

fn tls(settings: &EmailSettings) -> Result<Tls, String> {
    let kind = match settings.tls {
        MailTls::Off => return Ok(Tls::None),
        MailTls::StartTls => Tls::Required,
        MailTls::Tls => Tls::Wrapper,
    };
    let mut parameters = TlsParameters::builder(settings.server.clone());
    if let Some(path) = &settings.ca_file {
        parameters = parameters.certificate_store(CertificateStore::None);
        for certificate in authorities(path)? {
            let certificate = Certificate::from_der(certificate.to_vec());
            let certificate = certificate.map_err(|error| format!("preparing TLS: {error}"))?;
            parameters = parameters.add_root_certificate(certificate);
        }
    }
    let parameters = parameters.build();
    parameters
        .map(kind)
        .map_err(|error| format!("preparing TLS: {error}; install the package ca-certificates"))
}
