//! Leads and self check-ins made in another workspace, which is a sandbox.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use sandbox::{Fault, FaultKind, Options, Route};
use serde_json::{Value, json};
use shopmirror::config::{Auth, Intake, IntakeSettings, KeySource, SinkKind};
use shopmirror::record::Change;
use shopmirror::shape::{Escape, NAMES, Template};
use shopmirror::sink::{Sink, Verdict};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{at, build, change, deliver, deliver_one, is_fault, reason};
use crate::support::{Answer, Receiver, Workspace};

/// Another shop, with a key of its own for this sink.
pub(super) struct Partner {
    pub(super) workspace: Workspace,
    dir: TempDir,
}

impl Partner {
    pub(super) async fn start() -> Self {
        let options = Options { requests_per_minute: 60_000, ..Workspace::usual() };
        let workspace = Workspace::of(options).await;
        workspace.sandbox.pause_growth(true);
        let dir = tempfile::tempdir().unwrap();
        let partner = Self { workspace, dir };
        partner.write_key(&partner.workspace.sandbox.rest_key());
        partner
    }

    pub(super) fn key_file(&self) -> std::path::PathBuf {
        self.dir.path().join("key")
    }

    fn write_key(&self, key: &str) {
        write_key(self.dir.path(), key);
    }

    pub(super) fn settings(&self) -> IntakeSettings {
        settings(self.workspace.base_url(), self.dir.path())
    }

    /// The records of the leads that came from this sink, oldest first.
    pub(super) fn leads(&self) -> Vec<Value> {
        let truth = self.workspace.sandbox.truth(Route::Leads);
        let records = truth.iter().map(|lead| serde_json::from_str(lead.record.get()).unwrap());
        let mut leads: Vec<Value> =
            records.filter(|lead: &Value| lead["comment"].is_string()).collect();
        leads.retain(|lead| lead["comment"].as_str().unwrap().contains("evt_"));
        leads.sort_by_key(|lead| lead["id"].as_i64());
        leads
    }

    fn fault(&self, code: u16, retry_after: Option<&str>) {
        let retry_after = retry_after.map(str::to_owned);
        let kind = FaultKind::Status { code, retry_after };
        self.workspace.sandbox.fault(Fault { route: Some("leads".into()), kind, count: 1 });
    }
}

fn write_key(dir: &Path, key: &str) {
    let path = dir.join("key");
    fs::write(&path, key).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn templates<const N: usize>(fields: [(&str, &str); N]) -> BTreeMap<String, Template> {
    let compiled = fields.map(|(name, source)| {
        (name.to_owned(), Template::compile(source, Escape::Text, &NAMES).unwrap())
    });
    BTreeMap::from(compiled)
}

fn settings(base_url: &str, dir: &Path) -> IntakeSettings {
    IntakeSettings {
        base_url: base_url.parse().unwrap(),
        key: KeySource::File(dir.join("key")),
        auth: Auth::Bearer,
        create: Intake::Lead,
        business: None,
        fields: templates([
            ("name", "{{ record.name }}"),
            ("mobile_number", "{{ record.mobile|default(seq) }}"),
            ("comment", "{{ event_id }} {{ record.note|default(\"\") }}"),
            ("device_brand", "{{ record.brand|default(\"\") }}"),
        ]),
        address: BTreeMap::new(),
        custom_fields: templates([("Origin", "{{ route }} {{ record_id }}")]),
        requests_per_minute: 60_000,
        timeout: Duration::from_secs(120),
    }
}

pub(super) fn intake(settings: IntakeSettings) -> Sink {
    build(&SinkKind::Intake(settings))
}

fn recorded(seq: i64, record: &Value) -> Change {
    Change { body: record.to_string(), ..change(seq) }
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
        assert_eq!(deliver_one(&mut intake(partner.settings()), &given).await, Verdict::Done);
    }
    let leads = partner.leads();
    assert_eq!(leads.len(), 1, "{leads:?}");
    assert_eq!(leads[0]["name"], hostile);
    assert_eq!(leads[0]["device_brand"], "x".repeat(100), "cut to what the contract allows");
    assert!(leads[0].to_string().contains("leads 1"), "the custom field: {}", leads[0]);

    // Another person with the same number is a duplicate for the workspace, which is a success.
    let same = recorded(2, &json!({ "id": 2, "name": "Ada", "mobile": "030 1" }));
    assert_eq!(deliver_one(&mut intake(partner.settings()), &same).await, Verdict::Done);
    assert_eq!(partner.leads().len(), 1);

    // A check-in of the same change has a key of its own.
    let mut checkin = partner.settings();
    checkin.create = Intake::SelfCheckin;
    let before = partner.workspace.sandbox.requests().total;
    assert_eq!(deliver_one(&mut intake(checkin), &given).await, Verdict::Done);
    let requests = partner.workspace.sandbox.requests();
    assert_eq!(requests.total, before + 1);
    let last = requests.log.last().unwrap();
    assert_eq!((last.route.as_str(), last.status), ("self-checkin", 201));
}

#[tokio::test]
async fn only_what_the_contract_allows_is_retried() {
    let partner = Partner::start().await;
    let mut sink = intake(partner.settings());
    let given = recorded(1, &json!({ "id": 1, "name": "Ada" }));
    for (status, fault, words) in [
        (429, true, "asks to wait"),
        (423, true, "asks to wait"),
        (500, true, "the workspace failed"),
        (503, true, "the workspace failed"),
        (401, true, "put a valid key into api_key_file"),
        (403, true, "REST API"),
        (412, true, "base_url"),
        (409, false, "refused"),
        (422, false, "refused"),
    ] {
        partner.fault(status, (status == 429).then_some("7"));
        let verdict = deliver_one(&mut sink, &given).await;
        assert!(reason(&verdict).contains(words), "{status}: {verdict:?}");
        match &verdict {
            Verdict::Fault { retry_after, .. } if fault => {
                let wait = (status == 429).then(|| Duration::from_secs(7));
                assert_eq!(*retry_after, wait, "{status}");
            }
            Verdict::Refused { for_good: true, .. } if !fault => {}
            other => panic!("{status}: {other:?}"),
        }
    }
    assert_eq!(deliver_one(&mut sink, &given).await, Verdict::Done);
    assert_eq!(partner.leads().len(), 1);

    let unnamed = recorded(2, &json!({ "id": 2, "name": "  " }));
    let before = partner.workspace.sandbox.requests().total;
    let verdict = deliver_one(&mut sink, &unnamed).await;
    assert!(matches!(verdict, Verdict::Refused { for_good: true, .. }), "{verdict:?}");
    assert_eq!(partner.workspace.sandbox.requests().total, before, "nothing was asked");
}

#[tokio::test]
async fn a_new_key_counts_at_once_and_a_page_is_no_acknowledgement() {
    let partner = Partner::start().await;
    let mut sink = intake(partner.settings());
    partner.write_key("CANARY");
    let verdict = deliver_one(&mut sink, &change(1)).await;
    assert!(is_fault(&verdict) && reason(&verdict).contains("401"), "{verdict:?}");
    assert!(!reason(&verdict).contains("CANARY"));
    assert!(sink.probe().await.unwrap_err().contains("401"));
    partner.write_key(&partner.workspace.sandbox.rest_key());
    assert!(sink.probe().await.unwrap().contains("nothing was created"));
    assert_eq!(partner.leads().len(), 0);
    assert_eq!(deliver_one(&mut sink, &change(1)).await, Verdict::Done);

    let receiver = Receiver::start().await;
    for page in ["<html>", "[]", "{\"status\":\"ok\"}", ""] {
        receiver.always(Answer::status(200).body(page));
        let base_url = receiver.url("/api");
        let mut sink = intake(settings(&base_url, partner.dir.path()));
        let verdict = deliver_one(&mut sink, &change(1)).await;
        assert!(is_fault(&verdict) && reason(&verdict).contains("base_url"), "{verdict:?}");
    }
    let request = &receiver.received()[0];
    assert_eq!(request.uri, "/api/integrations/leads");
    assert_eq!(request.header("idempotency-key"), "evt_0001-lead-test");
}

#[tokio::test]
async fn a_text_that_is_too_long_is_cut_or_refused_before_it_is_sent_and_a_list_has_commas() {
    let partner = Partner::start().await;
    let mut settings = partner.settings();
    settings.fields.extend(templates([("phone_number", "{{ record.phone }}")]));
    settings.address = templates([
        ("address_line", "{{ record.street }}"),
        ("city", "{{ record.city }}"),
        ("zip_code", "{{ record.zip }}"),
    ]);
    settings.custom_fields =
        templates([("Parts", "{{ record.parts }}"), ("Note", "{{ record.long }}")]);
    let record = json!({
        "name": "Ada", "mobile": "1", "phone": "0".repeat(20), "street": "s".repeat(300),
        "city": "c".repeat(300), "zip": "z".repeat(20), "parts": ["bag", "charger"],
        "long": "ä".repeat(1_500),
    });
    let mut sink = intake(settings.clone());
    assert_eq!(deliver_one(&mut sink, &recorded(1, &record)).await, Verdict::Done);
    let lead = &partner.leads()[0];
    let text = lead.to_string();
    for kept in ["s".repeat(200), "c".repeat(100), "ä".repeat(1_000), "bag, charger".to_owned()] {
        assert!(text.contains(&format!("\"{kept}\"")), "{kept}: {text}");
    }
    // Far more than a template may write.
    settings.fields.extend(templates([("comment", "{{ event_id }}{{ record.long }}")]));
    let mut whole = record.clone();
    (whole["long"], whole["mobile"]) = (json!("ä".repeat(300_000)), json!("2"));
    let mut sink = intake(settings.clone());
    assert_eq!(deliver_one(&mut sink, &recorded(4, &whole)).await, Verdict::Done);
    let leads = partner.leads();
    let comment = leads.last().unwrap()["comment"].as_str().unwrap();
    assert_eq!((comment.chars().count(), comment.chars().last()), (10_000, Some('ä')));
    let before = partner.workspace.sandbox.requests().total;
    for (field, named) in [("zip", "zip_code"), ("phone", "phone_number")] {
        let mut longer = record.clone();
        longer[field] = json!("9".repeat(21));
        let verdict = deliver_one(&mut sink, &recorded(2, &longer)).await;
        let said = format!("fields.{named} has 21 characters, and the workspace takes at most 20");
        assert!(reason(&verdict).contains(&said), "{verdict:?}");
        assert!(matches!(verdict, Verdict::Refused { for_good: true, .. }), "{verdict:?}");
    }
    assert_eq!(partner.workspace.sandbox.requests().total, before, "nothing was sent");
    // A self check-in takes more of an address.
    settings.create = Intake::SelfCheckin;
    settings.fields = templates([("name", "{{ record.name }}"), ("mobile_number", "1")]);
    let body = intake(settings).preview(&recorded(3, &record), at(0)).unwrap().body;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["address"]["address_line"], "s".repeat(255));
}

#[tokio::test]
async fn the_pace_is_kept_and_a_stop_ends_the_wait() {
    let partner = Partner::start().await;
    let mut slow = partner.settings();
    slow.requests_per_minute = 1;
    let mut sink = intake(slow);
    // Its first request waits as well: another sink task may have sent one before a restart.
    let stop = CancellationToken::new();
    let before = partner.workspace.sandbox.requests().total;
    let given = [change(2)];
    let (verdicts, ()) = tokio::join!(sink.deliver(&given, at(0), &stop), async {
        // Meanwhile a sink without such a pace gets several answers.
        let mut other = intake(partner.settings());
        for seq in 3..8 {
            assert_eq!(deliver(&mut other, &[change(seq)]).await, [Verdict::Done]);
        }
        stop.cancel();
    });
    assert_eq!(verdicts, [Verdict::CutShort]);
    assert_eq!(partner.workspace.sandbox.requests().total, before + 5);

    // Each further request waits for its turn as well.
    let mut paced = partner.settings();
    paced.requests_per_minute = 600;
    let begun = Instant::now();
    let mut sink = intake(paced);
    for seq in 10..20 {
        assert_eq!(deliver_one(&mut sink, &change(seq)).await, Verdict::Done);
    }
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(1), "ten requests at 600 a minute in {took:?}");
}
