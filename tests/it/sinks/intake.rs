//! Leads and self check-ins made in another workspace, which is a sandbox.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use sandbox::{Fault, FaultKind, Options, Route};
use serde_json::{Value, json};
use shopmirror::config::{Intake, IntakeField, IntakeSettings, SinkKind};
use shopmirror::shape::{Escape, NAMES, Template};
use shopmirror::sink::{Sink, Verdict};
use shopmirror_core::record::{Change, Kind, MadeOutcome};
use tempfile::TempDir;

use super::{build, change, configured, deliver_one, fault_says, kind_of, reason};
use crate::support::{Answer, Receiver, Workspace, wait_until};

/// Another shop, with a key of its own for this sink.
pub(super) struct Partner {
    pub(super) workspace: Workspace,
    dir: TempDir,
}

impl Partner {
    pub(super) async fn start() -> Self {
        let options = Options {
            requests_per_minute: 60_000,
            ..Workspace::usual()
        };
        let workspace = Workspace::still(options).await;
        let dir = tempfile::tempdir().unwrap();
        let partner = Self { workspace, dir };
        partner.write_key(&partner.workspace.sandbox.rest_key());
        partner
    }

    pub(super) fn key_file(&self) -> std::path::PathBuf {
        self.dir.path().join("key")
    }

    fn write_key(&self, key: &str) {
        fs::write(self.key_file(), key).unwrap();
        fs::set_permissions(self.key_file(), fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn settings(&self) -> IntakeSettings {
        settings(self.workspace.base_url(), self.dir.path())
    }

    /// The records of the leads that came from this sink, oldest first.
    pub(super) fn leads(&self) -> Vec<Value> {
        let truth = self.workspace.sandbox.truth(Route::Leads);
        let records = truth
            .iter()
            .map(|lead| serde_json::from_str(lead.record.get()).unwrap());
        let mut leads: Vec<Value> = records
            .filter(|lead: &Value| lead["comment"].is_string())
            .collect();
        leads.retain(|lead| lead["comment"].as_str().unwrap().contains("evt_"));
        leads.sort_by_key(|lead| lead["id"].as_i64());
        leads
    }

    fn fault(&self, code: u16, retry_after: Option<&str>) {
        let retry_after = retry_after.map(str::to_owned);
        let kind = FaultKind::Status { code, retry_after };
        self.workspace.sandbox.fault(Fault {
            route: Some("leads".into()),
            kind,
            count: 1,
        });
    }
}

fn settings(base_url: &str, dir: &Path) -> IntakeSettings {
    let lines = format!(
        "type = \"intake\"\nbase_url = \"{base_url}\"\napi_key_file = \"key\"\ncreate = \"lead\"\n\
         timeout = \"2m\"\n[sinks.erp.fields]\n{}\n\
         custom_fields = {{ Origin = \"{{{{ route }}}} {{{{ record_id }}}}\" }}",
        r#"name = "{{ record.name }}"
mobile_number = "{{ record.mobile|default(seq) }}"
comment = "{{ event_id }} {{ record.note|default('') }}"
device_brand = "{{ record.brand|default('') }}""#
    );
    match configured(dir, &lines).kind {
        SinkKind::Intake(settings) => settings,
        other => unreachable!("{other:?}"),
    }
}

fn intake(settings: IntakeSettings) -> Box<dyn Sink> {
    build(&SinkKind::Intake(settings))
}

fn recorded(seq: i64, record: &Value) -> Change {
    Change {
        body: record.to_string(),
        ..change(seq)
    }
}

#[tokio::test]
async fn a_change_becomes_one_lead_however_often_it_is_sent() {
    let partner = Partner::start().await;
    let hostile = "Zoë \"Q\"\r\nX-Business: 2\u{0}{{ 7*7 }}";
    let given = recorded(
        1,
        &json!({ "id": 1, "name": hostile, "mobile": "030 1", "brand": "x".repeat(300) }),
    );
    for _ in 0..3 {
        assert_eq!(
            deliver_one(&mut intake(partner.settings()), &given).await,
            Verdict::Done
        );
    }
    let leads = partner.leads();
    assert_eq!(leads.len(), 1, "{leads:?}");
    assert_eq!(leads[0]["name"], hostile);
    assert_eq!(
        leads[0]["device_brand"],
        "x".repeat(100),
        "cut to what the contract allows"
    );
    assert!(
        leads[0].to_string().contains("leads 1"),
        "the custom field: {}",
        leads[0]
    );

    // Another person with the same number is a duplicate for the workspace, which is a success.
    let same = recorded(2, &json!({ "id": 2, "name": "Ada", "mobile": "030 1" }));
    assert_eq!(
        deliver_one(&mut intake(partner.settings()), &same).await,
        Verdict::Done
    );
    assert_eq!(partner.leads().len(), 1);

    // Nothing takes a lead back.
    let mut gone = recorded(3, &json!({ "id": 3, "name": "Grace", "mobile": "030 3" }));
    gone.kind = Kind::Vanished;
    let verdict = deliver_one(&mut intake(partner.settings()), &gone).await;
    assert_eq!((verdict, partner.leads().len()), (Verdict::Done, 1));

    // A check-in of the same change has a key of its own.
    let mut checkin = partner.settings();
    checkin.create = Intake::SelfCheckin;
    assert_eq!(
        deliver_one(&mut intake(checkin), &given).await,
        Verdict::Done
    );
    let requests = partner.workspace.sandbox.requests();
    let last = requests.log.last().unwrap();
    assert_eq!((last.route.as_str(), last.status), ("self-checkin", 201));
}

#[tokio::test]
async fn what_was_made_is_told_from_a_duplicate_and_from_what_is_parked() {
    let partner = Partner::start().await;
    let mut sink = intake(partner.settings());
    let person = |seq: i64, name: &str, mobile: &str| {
        recorded(seq, &json!({ "id": seq, "name": name, "mobile": mobile }))
    };
    assert_eq!(
        deliver_one(&mut sink, &person(1, "Ada", "030 1")).await,
        Verdict::Done
    );
    assert_eq!(
        deliver_one(&mut sink, &person(2, "Bo", "030 1")).await,
        Verdict::Done
    );
    let made = sink.take_made();
    let ids: Vec<String> = partner
        .leads()
        .iter()
        .map(|lead| lead["id"].to_string())
        .collect();
    let [first, second] = &made[..] else {
        panic!("{made:?}")
    };
    assert_eq!(
        (first.outcome, first.id.as_ref()),
        (MadeOutcome::Made, ids.first())
    );
    assert_eq!(
        (second.outcome, second.id.as_ref()),
        (MadeOutcome::Duplicate, ids.first())
    );
    assert!(
        made.iter().all(|made| made.request_id.is_some()),
        "{made:?}"
    );
    assert!(sink.take_made().is_empty());

    let receiver = Receiver::start().await;
    let answers = [
        (
            202,
            r#"{"status":"received","request_id":"req_9","data":null}"#,
        ),
        // A proxy gives up after the workspace has made the record.
        (504, ""),
        (
            200,
            r#"{"status":"duplicate","request_id":"req_10","data":{"id":"77"}}"#,
        ),
    ];
    let mut sink = intake(settings(&receiver.url("/api"), partner.dir.path()));
    for (status, body) in answers {
        receiver.always(Answer::status(status).body(body));
        let given = change(if status == 202 { 4 } else { 5 });
        let verdict = deliver_one(&mut sink, &given).await;
        assert_eq!(verdict == Verdict::Done, status < 300, "{verdict:?}");
    }
    let [parked, ours] = &sink.take_made()[..] else {
        panic!("two are answered")
    };
    assert_eq!(parked.outcome, MadeOutcome::Parked);
    assert_eq!(parked.request_id.as_deref(), Some("req_9"));
    assert_eq!(
        (ours.outcome, ours.id.as_deref()),
        (MadeOutcome::Made, Some("77"))
    );
}

#[tokio::test]
async fn the_daemon_keeps_what_was_made_until_the_sink_is_forgotten() {
    let partner = Partner::start().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let sink = format!(
        "[sinks.partner]\ntype = \"intake\"\nbase_url = \"{}\"\napi_key_file = \"{}\"\n\
         create = \"lead\"\nroutes = [\"leads\"]\n\
         fields = {{ name = \"{{{{ record.name }}}}\", email = \"a{{{{ record_id }}}}@example.com\" }}\n",
        partner.workspace.base_url(),
        partner.key_file().display()
    );
    place.configure(&sink);
    let daemon = place.started().await;
    let first_page = || place.number("SELECT count(*) FROM _pollers WHERE route = 'leads'");
    wait_until("the first page is stored", || first_page() > 0).await;
    let id = workspace.add(Route::Leads, json!({ "name": "Ada" }));
    let made = || place.number("SELECT count(*) FROM _made WHERE made_id IS NOT NULL");
    wait_until("it is made", || made() > 0).await;
    let of_lead = format!(
        "SELECT count(*) FROM _made m JOIN changes c USING (event_id) \
         WHERE m.sink = 'partner' AND m.outcome = 'made' AND c.record_id = '{id}'"
    );
    wait_until("the lead is among them", || place.number(&of_lead) == 1).await;
    daemon.stop().await;
    place.configure("");
    let daemon = place.started().await;
    daemon.stop().await;
    let forgotten = place.run(["sinks", "partner", "forget"]).await;
    assert_eq!(forgotten.code, Some(0), "{forgotten:?}");
    assert_eq!(made(), 0);
}

#[tokio::test]
async fn the_lenient_route_keeps_what_the_strict_one_refuses_and_names_by_field() {
    let partner = Partner::start().await;
    let bad = recorded(
        1,
        &json!({ "id": 1, "name": "Ada", "mobile": "030 1", "mail": "no address" }),
    );
    let mail = |strict: bool| {
        let mut settings = partner.settings();
        settings.strict = strict;
        let text = "{{ record.mail }}";
        settings.fields.push(IntakeField {
            inside: None,
            name: "email".into(),
            most: usize::MAX,
            template: Template::compile(text, Escape::Text, &NAMES).unwrap(),
        });
        intake(settings)
    };
    let refused = deliver_one(&mut mail(true), &bad).await;
    assert_eq!(kind_of(&refused), "refused for good", "{refused:?}");
    let words = reason(&refused);
    assert!(
        words.contains("refused; response: email: ") && !words.contains('{'),
        "{words}"
    );
    assert_eq!(deliver_one(&mut mail(false), &bad).await, Verdict::Done);
    let leads = partner.leads();
    assert_eq!(leads.len(), 1);
    assert!(leads[0].to_string().contains("no address"), "{leads:?}");
    let log = partner.workspace.sandbox.requests().log;
    assert_eq!(log.last().unwrap().route, "submit");
}

#[tokio::test]
async fn only_what_the_contract_allows_is_sent_and_retried() {
    let partner = Partner::start().await;
    let mut sink = intake(partner.settings());
    let given = recorded(1, &json!({ "id": 1, "name": "Ada" }));
    for (status, expected, words) in [
        (429, "fault", "asks to wait"),
        (423, "fault", "asks to wait"),
        (500, "fault", "the workspace failed"),
        (503, "fault", "the workspace failed"),
        (401, "fault", "put a valid key into api_key_file"),
        (403, "fault", "REST API"),
        (412, "fault", "base_url"),
        (409, "refused for good", "refused"),
        (422, "refused for good", "refused"),
    ] {
        partner.fault(status, (status == 429).then_some("7"));
        let verdict = deliver_one(&mut sink, &given).await;
        assert_eq!(kind_of(&verdict), expected, "{status}: {verdict:?}");
        assert!(reason(&verdict).contains(words), "{status}: {verdict:?}");
        if let Verdict::Fault { retry_after, .. } = verdict {
            assert_eq!(
                retry_after,
                (status == 429).then(|| Duration::from_secs(7)),
                "{status}"
            );
        }
    }
    assert_eq!(deliver_one(&mut sink, &given).await, Verdict::Done);
    assert_eq!(partner.leads().len(), 1);
    // Part of a number would be another number, so that the workspace says which field is too long.
    let long = recorded(
        2,
        &json!({ "id": 2, "name": "Ada", "mobile": "9".repeat(21) }),
    );
    let verdict = deliver_one(&mut sink, &long).await;
    assert_eq!(kind_of(&verdict), "refused for good", "{verdict:?}");
    assert!(reason(&verdict).contains("mobile_number"), "{verdict:?}");
}

#[tokio::test]
async fn a_new_key_counts_at_once_and_a_page_is_no_acknowledgement() {
    let partner = Partner::start().await;
    let mut sink = intake(partner.settings());
    partner.write_key("CANARY");
    fault_says(&mut sink, &change(1), "401").await;
    assert!(sink.check().await.unwrap_err().to_string().contains("401"));
    partner.write_key(&partner.workspace.sandbox.rest_key());
    assert!(sink.check().await.unwrap().contains("nothing was created"));
    assert_eq!(partner.leads().len(), 0);
    assert_eq!(deliver_one(&mut sink, &change(1)).await, Verdict::Done);

    let receiver = Receiver::start().await;
    receiver.always(Answer::status(200).body("<html>"));
    let mut sink = intake(settings(&receiver.url("/api"), partner.dir.path()));
    fault_says(&mut sink, &change(1), "base_url").await;
    let request = &receiver.received()[0];
    assert_eq!(request.uri, "/api/integrations/leads");
    assert_eq!(request.header("idempotency-key"), "evt_0001-lead");
}
