//! What `[sinks.NAME]` refuses: keys that all sinks have, and the keys of each type.

use super::refused;

const FILE: &str = "[sinks.erp]\ntype = \"file\"\npath = \"a.ndjson\"";
const WEBHOOK: &str = "[sinks.erp]\ntype = \"webhook\"\nurl = \"https://erp.example.com/CANARY\"";

#[test]
fn the_name_and_the_type() {
    refused(
        "[sinks.erp]",
        &[
            (r#"url = "https://erp.example.com/""#, &["1:1 needs `type`"]),
            (
                r#"type = "kafka""#,
                &["2:8 is none of the types; use one of webhook, file, command"],
            ),
            (r#"type = "web-hook""#, &[r#"2:8 did you mean "webhook"?"#]),
        ],
    );
    let name = "1:8 a name in [sinks] has 1 to 64 characters of a-z, 0-9, _ and -";
    refused(
        r#"[sinks."My ERP"]"#,
        &[("type = \"file\"\npath = \"a.ndjson\"", &[name])],
    );
    let verb = "1:1 `test` is a verb of `shopmirror sinks`: choose another name";
    refused(
        "[sinks.test]",
        &[("type = \"file\"\npath = \"a.ndjson\"", &[verb])],
    );
}

#[test]
fn which_changes_a_sink_gets_and_when() {
    refused(
        FILE,
        &[
            (
                r#"changes = ["deleted"]"#,
                &["4:12 use one of baseline, created, updated, vanished, gap"],
            ),
            (
                r#"start = "2026-03-01T08:00:00""#,
                &["4:9 a time with its offset, for example"],
            ),
            (
                r#"businesses = ["7"]"#,
                &["4:14 is not polled: correct it, or name it in `businesses` of [workspace]"],
            ),
            (
                r#"where = { paid = { ">=" = 5 } }"#,
                &[
                    r#"4:9 no condition in `paid`: write a string, a number, a boolean, or a table with "!=""#,
                ],
            ),
        ],
    );
}

#[test]
fn a_webhook() {
    refused(
        "[sinks.erp]\ntype = \"webhook\"",
        &[
            ("", &["1:1 [sinks.erp] needs `url`"]),
            (
                r#"url = "http://erp.example.com/CANARY""#,
                &["3:7 must begin with https://"],
            ),
            (
                r#"url_file = "absent""#,
                &[
                    "3:12 `url_file` names a file that the user of the service cannot use: No such file",
                ],
            ),
            (
                "url = \"http://203.0.113.7/CANARY\"\nallow_plain = true",
                &["3:7 also reaches the local network"],
            ),
            (
                r#"url_file = "writable""#,
                &["3:12 (mode 0666): run chmod 0640 on it"],
            ),
        ],
    );
    refused(
        WEBHOOK,
        &[
            (
                r#"secret_file = "prose""#,
                &["4:15 whose secret 1 is not whsec_ and the base64 of 24 to 64 bytes"],
            ),
            (
                "headers = { \"Content-Length\" = \"5\", \"X-Shop\" = \"CANARY\" }",
                &["4:32 `headers` cannot have content-length: it frames the request"],
            ),
            (
                "[sinks.erp.headers]\nTransfer-Encoding = \"chunked\"\nWebhook-ID = \"CANARY\"\n\
                 connection = \"close\"",
                &[
                    "5:21 `headers` cannot have transfer-encoding",
                    "6:14 `headers` cannot have webhook-id: it identifies the change",
                    "7:14 `headers` cannot have connection",
                ],
            ),
            (
                r#"template = "CANARY""#,
                &["4:12 is only for format = \"template\""],
            ),
        ],
    );
}

#[test]
fn a_template() {
    refused(
        &format!("{WEBHOOK}\nformat = \"template\""),
        &[
            ("", &["1:1 needs `template`: what to send"]),
            (
                "template = '{{ record.name }'",
                &["5:12 in `template`, line 1, column 16 of the template"],
            ),
            (
                "template = '{{ recrod.name }}'",
                &["5:12 there is no `recrod`; a template may use"],
            ),
        ],
    );
}

#[test]
fn a_file_and_a_command() {
    refused(
        "[sinks.audit]\ntype = \"file\"",
        &[("", &["1:1 [sinks.audit] needs `path`"])],
    );
    refused(
        "[sinks.label]\ntype = \"command\"",
        &[
            ("", &["1:1 [sinks.label] needs `command`"]),
            (
                r#"command = "print-label --now""#,
                &["3:11 must be a list in square brackets"],
            ),
            (
                r#"command = ["print-label"]"#,
                &["3:11 must begin with the absolute path of a program"],
            ),
        ],
    );
}

#[test]
fn a_database_a_broker_and_a_bucket() {
    let nats = "type = \"nats\"\nurl = \"nats://h.example.com\"";
    refused(
        "[sinks.bus]\nworkspace = \"north\"",
        &[
            (r#"type = "postgres""#, &["1:1 needs `url`"]),
            (
                "type = \"s3\"\nbucket = \"shop\"\naccess_key_file = \"two-lines\"\nendpoint = \"s3.example.com\"",
                &["6:12 must begin with https://"],
            ),
            (
                r#"type = "s3""#,
                &["1:1 needs `bucket`", "1:1 needs `access_key_file`"],
            ),
        ],
    );
    let shop = format!("{nats}\nworkspace = \"shop.>\"");
    refused(
        "[sinks.bus]",
        &[
            (nats, &["1:1 needs `workspace`"]),
            (&shop, &["4:13 must be 1 to 64 characters of a-z"]),
        ],
    );
}

#[test]
fn a_mail() {
    let missing = ["1:1 needs `server`", "1:1 needs `from`", "1:1 needs `to`"];
    refused("[sinks.desk]", &[(r#"type = "email""#, &missing)]);
    let not_here = "4:7 only for a server on this machine (localhost)";
    refused(
        "[sinks.desk]\ntype = \"email\"\nserver = \"smtp.example.com\"",
        &[(
            "tls = \"none\"\nfrom = \"a@example.com\"\nto = [\"b@example.com\"]",
            &[not_here],
        )],
    );
}

#[test]
fn an_intake() {
    let lead = |address: &str, key: &str| {
        let rest = format!("base_url = \"{address}\"\n{key}");
        format!("[sinks.new]\ntype = \"intake\"\ncreate = \"lead\"\n{rest}")
    };
    let contact = r#"fields = { name = "a", email = "b" }"#;
    let partner = "https://partner.example.com/api";
    let (key, own) = (
        r#"api_key_file = "partner-key""#,
        "https://SHOP.example.com:443/api",
    );
    refused(
        &lead(own, key),
        &[(contact, &["4:12 name another workspace"])],
    );
    refused(
        &lead(partner, key),
        &[(
            r#"fields = { name = "a" }"#,
            &["6:10 needs `name`, and `mobile_number` or `email`"],
        )],
    );
}
