//! What every sink promises, tested on each of them.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use shopmirror::config::SinkKind;
use shopmirror::shape::{DIGEST_NAMES, Escape, NAMES, Template};
use shopmirror::sink::{Sink, Verdict};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

#[cfg(feature = "email")]
use super::email::{MailServer, digest};
use super::intake::Partner;
#[cfg(feature = "postgres")]
use super::postgres::sink_kind as postgres;
use super::{
    all_done, at, build, changes, command, deliver, file, ids, stopped_at_a_fault, webhook,
};
#[cfg(feature = "postgres")]
use crate::support::servers::postgres::{Postgres, Role};
use crate::support::{Answer, Receiver};

/// How the destination behaves.
#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Well,
    AtFault,
    Refusing,
}

/// A sink with a destination that can be looked into.
enum Subject {
    Webhook(Receiver),
    File(TempDir),
    Command(TempDir),
    /// The same program for batches.
    CommandBatch(TempDir),
    Intake(Partner),
    #[cfg(feature = "email")]
    Email(MailServer),
    #[cfg(feature = "email")]
    EmailDigest(MailServer),
    #[cfg(feature = "postgres")]
    Postgres(Role),
}

/// The `data` object, as a template writes it for `change`.
const DATA: &str = r#"{"event_id": {{ change.event_id }}, "seq": {{ change.seq }},
    "route": {{ change.route }}, "record_id": {{ change.record_id }}, "kind": {{ change.kind }},
    "version": {{ change.version }}, "observed_at": {{ change.observed_at }},
    "business": {{ change.business }}, "record": {{ change.record }}, "changed": {{ change.changed }}}"#;

fn data_template() -> Template {
    Template::compile(&DATA.replace("change.", ""), Escape::Json, &NAMES).unwrap()
}

fn program(reads: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    // It takes the changes in only when it is to end with 0.
    let rest = "code=$(cat \"$1/code\")\n\
         [ \"$code\" = 0 ] && printf '%s\\n' \"$line\" >> \"$1/taken\"\nexit \"$code\"\n";
    fs::write(dir.path().join("program"), format!("{reads}; {rest}")).unwrap();
    dir
}

impl Subject {
    async fn all() -> Vec<Self> {
        let file = tempfile::tempdir().unwrap();
        fs::create_dir(file.path().join("folder")).unwrap();
        #[allow(unused_mut, reason = "some sinks are left out of some builds")]
        let mut all = vec![Self::Webhook(Receiver::start().await), Self::File(file)];
        all.push(Self::Command(program("read -r line")));
        all.push(Self::CommandBatch(program("line=$(cat)")));
        all.push(Self::Intake(Partner::start().await));
        #[cfg(feature = "email")]
        for make in [Self::Email, Self::EmailDigest] {
            all.extend(MailServer::start().map(make));
        }
        #[cfg(feature = "postgres")]
        if let Some(server) = Postgres::shared() {
            all.push(Self::Postgres(server.role().await));
        }
        for subject in &all {
            subject.be(Mood::Well);
        }
        all
    }

    fn name(&self) -> &'static str {
        self.kind().type_name()
    }

    fn kind(&self) -> SinkKind {
        match self {
            Self::Webhook(receiver) => SinkKind::Webhook(webhook(receiver.url("/hook"))),
            Self::File(dir) => file(dir.path().join("folder/audit.ndjson")),
            Self::Command(dir) => {
                let path = dir.path().to_str().unwrap();
                let program = format!("{path}/program");
                command(["/bin/sh", &program, path], Duration::from_secs(20))
            }
            Self::CommandBatch(dir) => {
                let path = dir.path().to_str().unwrap();
                let program = format!("{path}/program");
                let kind = command(["/bin/sh", &program, path], Duration::from_secs(20));
                let SinkKind::Command(mut settings) = kind else { unreachable!() };
                settings.batch = 10;
                SinkKind::Command(settings)
            }
            Self::Intake(partner) => {
                let mut settings = partner.settings();
                settings.fields.insert("comment".to_owned(), data_template());
                SinkKind::Intake(settings)
            }
            #[cfg(feature = "email")]
            Self::Email(server) => {
                let mut settings = server.settings();
                settings.text = data_template();
                SinkKind::Email(settings)
            }
            #[cfg(feature = "email")]
            Self::EmailDigest(server) => {
                let all = format!(
                    "[{{% for change in changes %}}{DATA}{{% if not loop.last %}},{{% endif %}}{{% endfor %}}]"
                );
                let mut settings = digest(server, "");
                settings.text = Template::compile(&all, Escape::Json, &DIGEST_NAMES).unwrap();
                SinkKind::Email(settings)
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(role) => postgres(&role.url, &role.name, "shop"),
        }
    }

    fn sink(&self) -> Sink {
        build(&self.kind())
    }

    fn be(&self, mood: Mood) {
        match self {
            Self::Webhook(receiver) => receiver.always(Answer::status(match mood {
                Mood::Well => 204,
                Mood::AtFault => 503,
                Mood::Refusing => 422,
            })),
            Self::File(dir) => {
                let (folder, away) = (dir.path().join("folder"), dir.path().join("away"));
                match mood {
                    Mood::Well if away.exists() => fs::rename(away, folder).unwrap(),
                    Mood::AtFault => fs::rename(folder, away).unwrap(),
                    Mood::Well | Mood::Refusing => {}
                }
            }
            Self::Intake(partner) => partner.be(match mood {
                Mood::Well => None,
                Mood::AtFault => Some(503),
                Mood::Refusing => Some(422),
            }),
            #[cfg(feature = "email")]
            Self::Email(server) | Self::EmailDigest(server) => server.be(match mood {
                Mood::Well => "well",
                Mood::AtFault => "data451",
                Mood::Refusing => "data554",
            }),
            Self::Command(dir) | Self::CommandBatch(dir) => {
                let code = match mood {
                    Mood::Well => "0",
                    Mood::AtFault => "75",
                    Mood::Refusing => "1",
                };
                fs::write(dir.path().join("code"), code).unwrap();
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(role) => match mood {
                Mood::Well | Mood::Refusing => {
                    role.psql("ALTER ROLE {r} LOGIN");
                }
                Mood::AtFault => {
                    role.psql("ALTER ROLE {r} NOLOGIN");
                    role.psql(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{r}'",
                    );
                }
            },
        }
    }

    /// Whether the destination has a way to refuse one change.
    fn can_refuse(&self) -> bool {
        match self {
            Self::File(_) => false,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => false,
            _ => true,
        }
    }

    /// What the destination has taken in, in order: the `data` objects.
    fn taken(&self) -> Vec<Value> {
        let lines = |path: PathBuf| -> Vec<Value> {
            let text = fs::read_to_string(path).unwrap_or_default();
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        match self {
            Self::Webhook(receiver) => receiver
                .received()
                .iter()
                .map(|request| {
                    let body: Value = serde_json::from_str(&request.body).unwrap();
                    assert_eq!(request.header("webhook-id"), body["data"]["event_id"]);
                    body["data"].clone()
                })
                .collect(),
            Self::File(dir) => lines(dir.path().join("folder/audit.ndjson")),
            Self::Command(dir) | Self::CommandBatch(dir) => lines(dir.path().join("taken")),
            Self::Intake(partner) => partner
                .leads()
                .iter()
                .map(|lead| serde_json::from_str(lead["comment"].as_str().unwrap()).unwrap())
                .collect(),
            #[cfg(feature = "email")]
            Self::Email(server) | Self::EmailDigest(server) => {
                let texts = server.mails();
                let read = texts.iter().map(|mail| {
                    let data: Value = serde_json::from_str(mail["text"].as_str().unwrap()).unwrap();
                    if data.is_array() { data.as_array().unwrap().clone() } else { vec![data] }
                });
                read.flatten().collect()
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(role) => {
                let rows = role.psql(
                    "SELECT json_build_object('event_id', event_id, 'seq', seq, 'route', route, \
                     'record_id', record_id, 'kind', kind, 'version', version, 'observed_at', \
                     to_char(observed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), \
                     'business', business, 'record', coalesce(exact::json, body::json), \
                     'changed', json_build_object()) FROM {s}.changes ORDER BY seq",
                );
                rows.iter().map(|row| serde_json::from_str(row).unwrap()).collect()
            }
        }
    }

    fn taken_ids(&self) -> Vec<String> {
        self.taken().iter().map(|data| data["event_id"].as_str().unwrap().to_owned()).collect()
    }
}

#[tokio::test]
async fn acknowledged_changes_arrived_complete_and_in_order() {
    for subject in Subject::all().await {
        let mut sink = subject.sink();
        let given = changes(1..=9);
        for part in given.chunks(3) {
            let verdicts = deliver(&mut sink, part).await;
            assert!(all_done(&verdicts), "{}: {verdicts:?}", subject.name());
        }
        let expected: Vec<Value> =
            given.iter().map(|change| serde_json::from_str(&change.data_json()).unwrap()).collect();
        assert_eq!(subject.taken(), expected, "{}", subject.name());
    }
}

#[tokio::test]
async fn after_a_fault_of_the_destination_every_change_is_delivered_later() {
    for subject in Subject::all().await {
        let mut sink = subject.sink();
        let given = changes(1..=4);
        assert!(all_done(&deliver(&mut sink, &given[..1]).await));
        subject.be(Mood::AtFault);
        let verdicts = deliver(&mut sink, &given[1..]).await;
        assert!(stopped_at_a_fault(&verdicts), "{}: {verdicts:?}", subject.name());
        subject.be(Mood::Well);
        assert!(all_done(&deliver(&mut sink, &given[1..]).await), "{}", subject.name());
        let mut taken = subject.taken_ids();
        taken.dedup();
        assert_eq!(taken, ids(&given), "{}", subject.name());
    }
}

#[tokio::test]
async fn a_refused_change_does_not_stop_the_next_one() {
    for subject in Subject::all().await {
        if !subject.can_refuse() {
            continue;
        }
        let mut sink = subject.sink();
        let given = changes(1..=2);
        subject.be(Mood::Refusing);
        let verdicts = deliver(&mut sink, &given[..1]).await;
        assert!(
            matches!(&verdicts[0], Verdict::Refused { .. }),
            "{}: {verdicts:?}",
            subject.name()
        );
        subject.be(Mood::Well);
        assert!(all_done(&deliver(&mut sink, &given[1..]).await), "{}", subject.name());
    }
}

#[tokio::test]
async fn a_change_repeated_after_a_restart_has_the_same_event_id() {
    for subject in Subject::all().await {
        let given = changes(1..=3);
        assert!(all_done(&deliver(&mut subject.sink(), &given).await));
        assert!(all_done(&deliver(&mut subject.sink(), &given).await));
        let mut taken = subject.taken_ids();
        taken.sort();
        taken.dedup();
        assert_eq!(taken, ids(&given), "{}", subject.name());
    }
}

#[tokio::test]
async fn no_delivery_starts_after_a_stop() {
    for subject in Subject::all().await {
        let stop = CancellationToken::new();
        stop.cancel();
        let given = changes(1..=3);
        let verdicts = subject.sink().deliver(&given, at(0), &stop).await;
        assert_eq!(verdicts.len(), 3);
        let cut = |verdict: &Verdict| *verdict == Verdict::CutShort;
        assert!(verdicts.iter().all(cut), "{}: {verdicts:?}", subject.name());
        assert_eq!(subject.taken_ids(), Vec::<String>::new(), "{}", subject.name());
    }
}

#[tokio::test]
async fn a_probe_delivers_and_creates_nothing() {
    for subject in Subject::all().await {
        let said = subject.sink().probe().await;
        assert!(said.is_ok(), "{}: {said:?}", subject.name());
        match &subject {
            Subject::Webhook(receiver) => {
                assert!(receiver.received().iter().all(|request| request.method != "POST"));
            }
            _ => assert_eq!(subject.taken(), [Value::Null; 0]),
        }
        if let Subject::File(dir) = &subject {
            assert_eq!(fs::read_dir(dir.path().join("folder")).unwrap().count(), 0);
        }
    }
}

#[tokio::test]
async fn an_empty_batch_sends_nothing() {
    for subject in Subject::all().await {
        assert_eq!(deliver(&mut subject.sink(), &[]).await, []);
        assert!(subject.sink().batch() > 0);
    }
}
