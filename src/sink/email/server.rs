//! The conversation with a mail server, which `lettre` holds, and what its answers mean.
//!
//! Each step is sent by itself, so that a refusal says which one it was, and a mail reaches the
//! recipients that the server accepts. A mail that the server refuses (5xx), or whose recipients it
//! refuses all, blames the change. Everything else blames the server or the configuration: the
//! connection, TLS, the login, the sender, and every 4xx.

use std::error::Error as _;
use std::time::Duration;

use lettre::Address;
use lettre::address::Envelope;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{
    AsyncSmtpConnection, Certificate, CertificateStore, Tls, TlsParameters,
};
use lettre::transport::smtp::commands::{Data, Mail as MailFrom, Rcpt};
use lettre::transport::smtp::extension::ClientId;
use secrecy::ExposeSecret;
use tokio_util::sync::CancellationToken;

use crate::config::{EmailSettings, MailTls};
use crate::duration;
use crate::sink::reason::{self, Secrets};
use crate::sink::{Preview, Verdict};
use crate::tls::{authorities, problem_of};

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

/// A step that failed, and why.
struct Failed {
    step: Step,
    error: Error,
}

enum Step {
    Connect,
    StartTls,
    Login,
    Sender,
    Recipient(Address),
    Message,
}

impl Step {
    fn failed(self) -> impl FnOnce(Error) -> Failed {
        |error| Failed { step: self, error }
    }
}

impl Server {
    pub(super) fn build(
        sink: &str,
        settings: &EmailSettings,
        envelope: Envelope,
    ) -> Result<Self, String> {
        let login = settings.login.as_ref().map(|(user, secret)| (user, secret.expose_secret()));
        Ok(Self {
            sink: sink.to_owned(),
            host: settings.server.clone(),
            port: settings.port,
            tls: tls(settings)?,
            secrets: match login {
                Some((user, password)) => Secrets::of_login(user, password),
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

    /// Sends one mail. `line` is the connection of the mail before, and stays for the next one.
    pub(super) async fn send(
        &mut self,
        line: &mut Option<AsyncSmtpConnection>,
        mail: &[u8],
        stop: &CancellationToken,
    ) -> Verdict {
        let sending = tokio::time::timeout(self.timeout, self.converse(line.take(), mail));
        match stop.run_until_cancelled(sending).await {
            None => Verdict::CutShort,
            Some(Err(_)) => Verdict::fault(self.too_slow()),
            Some(Ok(Ok((connection, refused)))) => {
                *line = Some(connection);
                self.note(&refused);
                Verdict::Done
            }
            Some(Ok(Err(failed))) => self.judge(&failed),
        }
    }

    /// What [`Self::send`] would do.
    pub(super) fn preview(&self, mail: &[u8]) -> Preview {
        let to: Vec<String> = self.envelope.to().iter().map(ToString::to_string).collect();
        let how = format!("mail to {} by {} port {}:", to.join(", "), self.host, self.port);
        Preview::of(how, String::from_utf8_lossy(mail))
    }

    /// Begins a mail, and sends none.
    pub(super) async fn probe(&self) -> Result<String, String> {
        match tokio::time::timeout(self.timeout, self.begin(None)).await {
            Err(_) => Err(self.too_slow()),
            Ok(Err(failed)) => Err(self.explain(&failed)),
            Ok(Ok((connection, refused))) => {
                quit(connection).await;
                match refused.is_empty() {
                    true => {
                        let login = if self.login.is_some() { "the login, " } else { "" };
                        Ok(format!(
                            "the mail server accepts {login}the sender and every recipient; no mail was sent"
                        ))
                    }
                    false => Err(self.explain_all(&refused).join("; ")),
                }
            }
        }
    }

    /// One mail; returns the recipients that do not get it.
    async fn converse(
        &self,
        line: Option<AsyncSmtpConnection>,
        mail: &[u8],
    ) -> Result<(AsyncSmtpConnection, Vec<Failed>), Failed> {
        let (mut connection, mut refused) = self.begin(line).await?;
        if refused.len() == self.envelope.to().len() {
            return Err(refused.swap_remove(0));
        }
        connection.command(Data).await.map_err(Step::Message.failed())?;
        connection.message(mail).await.map_err(Step::Message.failed())?;
        Ok((connection, refused))
    }

    /// Names the sender and the recipients to the server; returns the recipients that it refuses.
    async fn begin(
        &self,
        line: Option<AsyncSmtpConnection>,
    ) -> Result<(AsyncSmtpConnection, Vec<Failed>), Failed> {
        let sender = MailFrom::new(self.envelope.from().cloned(), Vec::new());
        let mut begun = None;
        if let Some(mut connection) = line {
            // A server may take only some mails on one connection.
            begun = connection.command(&sender).await.is_ok().then_some(connection);
        }
        let mut connection = match begun {
            Some(connection) => connection,
            None => {
                let mut connection = self.connect().await?;
                connection.command(sender).await.map_err(Step::Sender.failed())?;
                connection
            }
        };
        let mut refused = Vec::new();
        for recipient in self.envelope.to() {
            let taken = connection.command(Rcpt::new(recipient.clone(), Vec::new())).await;
            match taken.map_err(Step::Recipient(recipient.clone()).failed()) {
                Ok(_) => {}
                Err(failed) if failed.error.is_permanent() => refused.push(failed),
                Err(failed) => return Err(failed),
            }
        }
        Ok((connection, refused))
    }

    /// A connection that is protected and logged in as configured.
    async fn connect(&self) -> Result<AsyncSmtpConnection, Failed> {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let hello = ClientId::Domain(name);
        let from_first = match &self.tls {
            Tls::Wrapper(parameters) => Some(parameters.clone()),
            _ => None,
        };
        let place = (self.host.as_str(), self.port);
        let connecting = AsyncSmtpConnection::connect_tokio1(place, None, &hello, from_first, None);
        let mut connection = connecting.await.map_err(Step::Connect.failed())?;
        if let Tls::Required(parameters) = &self.tls {
            let safe = connection.starttls(parameters.clone(), &hello).await;
            safe.map_err(Step::StartTls.failed())?;
        }
        if let Some(login) = &self.login {
            let taken = connection.auth(DEFAULT_MECHANISMS, login).await;
            taken.map_err(Step::Login.failed())?;
        }
        Ok(connection)
    }

    /// Logs the recipients that get no mail, once until they change.
    fn note(&mut self, refused: &[Failed]) {
        let refused = self.explain_all(refused);
        if refused == self.noted {
            return;
        }
        for reason in &refused {
            let reason = self.secrets.reason(reason);
            tracing::warn!(sink = self.sink, reason, "mails reach only the other recipients");
        }
        self.noted = refused;
    }

    fn too_slow(&self) -> String {
        let limit = duration::exact(self.timeout);
        format!(
            "the mail server did not finish within {limit}: check port and tls; if it is only slow, raise timeout"
        )
    }

    fn judge(&self, failed: &Failed) -> Verdict {
        let text = self.explain(failed);
        match failed.step {
            Step::Recipient(_) | Step::Message if failed.error.is_permanent() => {
                Verdict::refused(text)
            }
            _ => Verdict::fault(text),
        }
    }

    fn explain_all(&self, failed: &[Failed]) -> Vec<String> {
        failed.iter().map(|failed| self.explain(failed)).collect()
    }

    fn explain(&self, Failed { step, error }: &Failed) -> String {
        let said = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        let Some(code) = error.status() else { return self.broken(step, error, &said) };
        let (what, remedy) = match step {
            Step::Connect => ("the connection".to_owned(), "ask who runs it"),
            Step::StartTls => ("STARTTLS".to_owned(), "check port and tls"),
            Step::Login => ("the login".to_owned(), "correct login_file"),
            Step::Sender => ("the sender".to_owned(), "correct from, or let the server allow it"),
            Step::Recipient(address) => (format!("the recipient {address}"), "correct to"),
            Step::Message => ("the mail".to_owned(), "its text says why"),
        };
        let said = reason::said(said.as_bytes(), true);
        if error.is_transient() {
            format!("the mail server postponed {what} ({code}); it is tried again{said}")
        } else {
            // Servers that demand a login say so at different steps.
            let login = if self.login.is_none() { ", or set login_file" } else { "" };
            format!("the mail server refused {what} ({code}): {remedy}{login}{said}")
        }
    }

    /// Why there was no answer to read.
    fn broken(&self, step: &Step, error: &Error, said: &str) -> String {
        if let Some(words) = problem_of(error) {
            return format!("no connection to the mail server: {words}");
        }
        match step {
            Step::StartTls if error.is_client() => {
                "the mail server offers no STARTTLS: set tls to \"tls\", or check the port".to_owned()
            }
            Step::Login if error.is_client() => "the mail server offers no login of a kind that is known: remove login_file, or check the port".to_owned(),
            _ if error.is_response() => "the mail server closed the connection, or its answer is not SMTP; check port and tls".to_owned(),
            Step::Connect => {
                format!("could not connect to the mail server at port {}: {said}", self.port)
            }
            _ => format!("the connection to the mail server broke: {said}"),
        }
    }
}

/// Says goodbye.
pub(super) async fn quit(mut connection: AsyncSmtpConnection) {
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
