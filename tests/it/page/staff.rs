//! What people of the shop see: a list of fields, on whatever page and in whatever form.
//!
//! Every amount of the shop is a rare number in a field of its own. The same walk over all pages
//! finds each of them for the owner, and none for the staff.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Site;
use super::access::by_loopback;
use crate::support::{Daemon, Pages, Place, run_python};

const OWNER: &str = "Authorization: Bearer CANARY-of-the-owner";
const STAFF: &str = "Authorization: Bearer CANARY-of-the-staff";
const TOKENS: &str = "anna owner CANARY-of-the-owner\nben staff CANARY-of-the-staff\n";

/// Rare numbers, by the field that has each. The last one is what the repair still owes.
const RARE: [(&str, &str); 12] = [
    ("total_amount", "73191.37"),
    ("paid_amount", "12082.41"),
    ("deposit", "73193.43"),
    ("comment", "73194.47"),
    ("internal_code", "73195.53"),
    ("amount", "12082.41"),
    ("budget", "73197.61"),
    ("credit", "73198.67"),
    ("cost", "73199.71"),
    ("remark", "73200.73"),
    ("bench", "73201.79"),
    ("owed", "61108.96"),
];

fn rare(field: &str) -> f64 {
    let (_, number) = RARE.iter().find(|(name, _)| *name == field).unwrap();
    number.parse().unwrap()
}

fn shop(pages: &Pages) {
    let now = Timestamp::now().to_string();
    let said = |field: &str| format!("about {} in all", rare(field));
    let job = json!({"id": 7, "job_number": "JOB-7", "customer_name": "Ann", "status": "In repair",
        "mobile_number": "0770", "status_stage": "open", "device_brand": "Acme", "device_model": "A5",
        "device_type": {"name": "Phone", "bench": rare("bench")}, "problem": "Screen", "estimated_delivery": &now[..10],
        "assigned_to": "Tim", "total_amount": rare("total_amount"),
        "paid_amount": rare("paid_amount"), "custom_fields": {"deposit": rare("deposit")},
        "comment": said("comment"), "internal_code": rare("internal_code"), "created_at": now});
    let change = json!({"id": 1, "job_number": "JOB-7", "customer_name": "Ann",
        "status": "In repair", "status_stage": "open", "changed_by": "Tim",
        "comment": said("remark"), "created_at": now});
    let payment = json!({"id": 1, "job_number": "JOB-7", "customer_name": "Ann",
        "amount": rare("amount"), "payment_mode": "Cash", "created_at": now});
    let customer = json!({"id": 5, "name": "Ann", "mobile_number": "0770",
        "credit": rare("credit"), "created_at": now});
    let lead = json!({"id": 3, "name": "Bo", "status": "New", "status_stage": "open",
        "next_follow_up": &now[..10], "budget": said("budget"), "created_at": now});
    let outsourced = json!({"id": 2, "job_number": "JOB-7", "vendor_name": "Fix",
        "status": "Sent", "status_stage": "open", "cost": rare("cost"), "created_at": now});
    for (route, record) in [
        ("jobs", job),
        ("job-status-changes", change),
        ("payments", payment),
        ("customers", customer),
        ("leads", lead),
        ("outsourced-jobs", outsourced),
    ] {
        pages.show(route, Value::from(vec![record]).to_string());
    }
}

/// The page with an own report that shows an amount.
async fn opened(place: &Place) -> (Daemon, Site) {
    let own = "-- title = \"Own\"\nSELECT _total_amount FROM jobs\n";
    std::fs::create_dir(place.path("own")).unwrap();
    place.write("own/own.sql", own);
    place.write("page-tokens", TOKENS);
    place.configure(
        "[status]\nlisten = \"0.0.0.0:0\"\ntoken_file = \"page-tokens\"\nshow_records = true\n\
        [reports]\nfolder = \"own\"\n",
    );
    let daemon = place.started().await;
    (daemon, by_loopback(place).await)
}

/// A walk over all that links, forms and formats lead to from Home.
struct Walk<'a> {
    site: &'a Site,
    token: &'a str,
    /// What was read, by its address.
    read: BTreeMap<String, String>,
    /// The addresses of Excel files.
    books: BTreeSet<String>,
    /// What was asked for, without the days.
    asked: BTreeSet<String>,
    next: Vec<String>,
}

impl<'a> Walk<'a> {
    async fn over(site: &'a Site, token: &'a str) -> Self {
        let mut walk = Self {
            site,
            token,
            read: BTreeMap::new(),
            books: BTreeSet::new(),
            asked: BTreeSet::new(),
            next: Vec::new(),
        };
        walk.note("/");
        while let Some(path) = walk.next.pop() {
            walk.visit(&path).await;
        }
        walk
    }

    async fn visit(&mut self, path: &str) {
        if path.contains("xlsx") {
            self.books.insert(path.to_owned());
            return;
        }
        let reply = self.site.ask("GET", path, &[self.token]).await;
        assert_ne!(reply.code, 503, "{path}: {reply:?}");
        for piece in reply.body.split("href=\"").skip(1) {
            let address = piece.split('"').next().unwrap_or_default();
            self.note(&format!("/{}", address.trim_start_matches('.')));
        }
        for form in reply.body.split("<form").skip(1) {
            let form = form.split("</form>").next().unwrap_or_default();
            for address in addresses_of(form) {
                self.note(&address);
            }
        }
        for end in ["format=json", "format=csv", "format=xlsx"] {
            let mark = if path.contains('?') { '&' } else { '?' };
            self.note(&format!("{path}{mark}{end}"));
        }
        self.read.insert(path.to_owned(), reply.body);
    }

    /// Notes an address: once for all days, and with one choice of its form at a time.
    fn note(&mut self, address: &str) {
        let address = address.replace("&amp;", "&");
        let address = address.split('#').next().unwrap_or_default();
        let (path, query) = address.split_once('?').unwrap_or((address, ""));
        let mut names = BTreeSet::new();
        let mut choices = 0;
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "from" | "to" | "after" | "by" => continue,
                "name" | "route" | "id" | "q" => {}
                _ if value.is_empty() || value == "0" => continue,
                _ => choices += 1,
            }
            names.insert(pair.replace("=-", "="));
        }
        if choices <= 1 && self.asked.insert(format!("{path}?{names:?}")) {
            self.next.push(address.to_owned());
        }
    }

    /// Everything that was read, with the texts of the Excel files.
    async fn texts(&self) -> BTreeMap<String, String> {
        let folder = tempfile::tempdir().unwrap();
        let mut files = BTreeMap::new();
        for (number, address) in self.books.iter().enumerate() {
            let path = folder.path().join(number.to_string());
            std::fs::write(&path, self.site.file(address, self.token).await).unwrap();
            files.insert(address, path);
        }
        let mut texts = self.read.clone();
        if let Some(unpacked) = run_python(UNPACK, &json!(files)) {
            let unpacked: BTreeMap<String, String> = serde_json::from_value(unpacked).unwrap();
            texts.extend(unpacked);
        }
        texts
    }
}

/// The addresses of a form: with each of its boxes filled in, and with each of its choices.
fn addresses_of(form: &str) -> Vec<String> {
    let of = |tag: &str, name: &str| -> String {
        let value = tag.split(&format!(" {name}=\"")).nth(1);
        value
            .and_then(|value| value.split('"').next())
            .unwrap_or_default()
            .to_owned()
    };
    let action = of(form, "action");
    if action.is_empty() || form.contains("method=\"post\"") {
        return Vec::new();
    }
    let mut fixed = String::new();
    let mut filled = Vec::new();
    for input in form.split("<input").skip(1) {
        let input = input.split('>').next().unwrap_or_default();
        let (name, value) = (of(input, "name"), of(input, "value"));
        if of(input, "type") == "hidden" {
            fixed += &format!("&{name}={value}");
        } else if of(input, "type") == "date" {
            filled.push(format!("{name}=2026-01-01"));
        } else {
            filled.push(format!("{name}=1"));
        }
    }
    for select in form.split("<select").skip(1) {
        let name = of(select, "name");
        for option in select.split("<option").skip(1) {
            filled.push(format!("{name}={}", of(option, "value")));
        }
    }
    let mut addresses = Vec::new();
    for one in filled {
        addresses.push(format!("/{action}?{one}{fixed}").replace(' ', "+"));
    }
    addresses
}

/// The texts of Excel files, by their addresses; a page in the place of a file as it is.
const UNPACK: &str = "
import io, json, sys, zipfile
texts = {}
for address, path in json.load(sys.stdin).items():
    if zipfile.is_zipfile(path):
        book = zipfile.ZipFile(path)
        texts[address] = ' '.join(book.read(name).decode() for name in book.namelist())
    else:
        texts[address] = open(path, errors='replace').read()
print(json.dumps(texts))";

/// The rare numbers in a text, however they are written.
fn found(text: &str) -> BTreeSet<&'static str> {
    let plain = text.replace([',', '.', '\u{a0}', ' '], "");
    let mut found = BTreeSet::new();
    for (field, number) in RARE {
        let (whole, _) = number.split_once('.').unwrap();
        if plain.contains(whole) {
            found.insert(field);
        }
    }
    found
}

#[tokio::test]
async fn no_page_list_form_or_file_shows_staff_an_amount_or_another_hidden_field() {
    let pages = Pages::start().await;
    shop(&pages);
    let place = pages.place();
    let (daemon, site) = opened(&place).await;
    let all = "/find?q=about";
    let is_indexed = |body: &str| {
        ["route=leads", "route=jobs"]
            .iter()
            .all(|r| body.contains(r))
    };
    site.ask_when(all, OWNER, "all is read", |reply| is_indexed(&reply.body))
        .await;

    let owner = Walk::over(&site, OWNER).await;
    let mut shown = BTreeSet::new();
    for text in owner.texts().await.values() {
        shown.extend(found(text));
    }
    assert_eq!(
        shown,
        RARE.iter().map(|(field, _)| *field).collect(),
        "the walk sees all"
    );

    let staff = Walk::over(&site, STAFF).await;
    let texts = staff.texts().await;
    for (path, text) in &texts {
        assert!(found(text).is_empty(), "{path}: {:?}: {text}", found(text));
    }
    // It walked over what staff sees.
    for said in ["JOB-7", "Screen", "Tim", "In repair", "Acme"] {
        assert!(texts.values().any(|text| text.contains(said)), "{said}");
    }
    // What the owner is led to is shown to staff either without amounts, or not at all.
    for path in owner.read.keys().chain(&owner.books) {
        let reply = site.ask("GET", path, &[STAFF]).await;
        assert!(
            [200, 303, 404, 422].contains(&reply.code),
            "{path}: {reply:?}"
        );
        assert!(found(&reply.body).is_empty(), "{path}: {reply:?}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn what_names_a_hidden_field_is_absent_for_staff() {
    let pages = Pages::start().await;
    shop(&pages);
    let place = pages.place();
    let (daemon, site) = opened(&place).await;
    let has_all = |reply: &super::Reply| reply.body.contains("JOB-7");
    site.ask_when("/find?q=73194", OWNER, "all is read", has_all)
        .await;
    for path in [
        "/system",
        "/api/status",
        "/records?route=payments",
        "/records?route=jobs&sort=total_amount",
        "/records?route=jobs&sort=-comment",
        "/records?route=jobs&total_amount.from=1",
        "/records?route=customers&mobile_number.has=0",
        "/records?route=jobs&format=json",
        "/records.csv?route=payments",
        "/records.csv?route=jobs&total_amount.to=1",
        "/records.xlsx?route=jobs&sort=total_amount",
        "/record?route=payments&id=1",
        "/record?route=jobs&id=7&format=json",
        "/find?q=ann&format=json",
        "/person?name=Tim&amount_from=1",
        "/report?name=outstanding",
        "/report?name=payments",
        "/report?name=average-repair",
        "/report?name=sources",
        "/report?name=mirror",
        "/report?name=repairs&amount_from=1",
        "/report?name=repairs&amount_to=99999&format=csv",
        "/report?name=repairs&total.from=1",
    ] {
        let reply = site.ask("GET", path, &[STAFF]).await;
        assert_eq!(reply.code, 404, "{path}: {reply:?}");
    }
    // A word of a hidden field finds nothing, one of a field that is shown does.
    for (words, is_found) in [
        ("73195.53", false),
        ("73194", false),
        ("0770", false),
        ("ann", true),
    ] {
        let path = format!("/find?q={words}");
        let reply = site.ask("GET", &path, &[STAFF]).await;
        assert_eq!(
            reply.body.contains("route=jobs"),
            is_found,
            "{path}: {reply:?}"
        );
    }
    let home = site.ask("GET", "/?format=json", &[STAFF]).await.body;
    assert!(
        home.contains("taken_in") && !home.contains("unpaid"),
        "{home}"
    );
    for path in [
        "/",
        "/reports",
        "/record?route=jobs&id=7",
        "/person?name=Tim",
        "/wall",
        "/readyz",
    ] {
        let reply = site.ask("GET", path, &[STAFF]).await;
        assert_eq!(reply.code, 200, "{path}: {reply:?}");
        for said in [
            "Payments",
            "Outstanding",
            "Money",
            "As the workspace sent it",
            "system",
        ] {
            assert!(!reply.body.contains(said), "{path}: {said}: {reply:?}");
        }
    }
    daemon.stop().await;
}
