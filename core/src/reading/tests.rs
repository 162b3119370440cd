//! Each example of a value that shops send, and what no reader may do.

use jiff::civil::date;
use jiff::tz::TimeZone;

use super::*;
use crate::record::{Fields, Route};

fn json(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn amount(text: &str) -> AmountReading {
    read_amount(Some(&json(text)))
}

fn day(text: &str) -> DayReading {
    read_day(Some(&json(text)), None, &new_york())
}

fn instant(text: &str) -> Reading<Timestamp> {
    read_instant(Some(&json(text)), &new_york()).reading
}

fn new_york() -> TimeZone {
    TimeZone::get("America/New_York").unwrap()
}

fn berlin() -> TimeZone {
    TimeZone::get("Europe/Berlin").unwrap()
}

#[test]
fn an_amount_is_read_where_only_one_reading_is_possible() {
    for (text, wanted) in [
        ("12", 12.0),
        ("12,50", 12.5),
        ("1.234,50", 1234.5),
        ("1,234.50", 1234.5),
        ("1234.567", 1234.567),
        ("0.500", 0.5),
        ("0,500", 0.5),
        (".5", 0.5),
        ("007.50", 7.5),
        ("1.234.567", 1_234_567.0),
        ("1,234,567", 1_234_567.0),
        ("1,23,456.50", 123_456.5),
        ("1,23,456", 123_456.0),
        ("1 234", 1234.0),
        ("1\u{a0}234,5", 1234.5),
        ("1\u{202f}234\u{202f}567", 1_234_567.0),
        ("1 234,567", 1234.567),
        ("1'234.50", 1234.5),
        ("1\u{2019}234", 1234.0),
        (" 12.50 ", 12.5),
        ("-12.50", -12.5),
        ("\u{2212}12,50", -12.5),
        ("+ 12.50", 12.5),
        ("12.50-", -12.5),
        ("(50.00)", -50.0),
        ("($50.00)", -50.0),
        ("EUR (50.00)", -50.0),
        ("$1,234.50", 1234.5),
        ("-$5", -5.0),
        ("$-5", -5.0),
        ("€ 1.234,50", 1234.5),
        ("1.234,50 €", 1234.5),
        ("EUR 12,50", 12.5),
        ("12,50 EUR", 12.5),
        ("-12,50EUR", -12.5),
        ("₹1,23,456.00", 123_456.0),
        ("CHF 1'000.00", 1000.0),
    ] {
        assert_eq!(amount(text).reading, Reading::Certain(wanted), "{text}");
    }
    for (number, wanted) in [("10", 10.0), ("-7.25", -7.25), ("1e2", 100.0), ("0", 0.0)] {
        assert_eq!(read_amount(Some(number)).reading, Reading::Certain(wanted));
    }
}

#[test]
fn an_amount_with_two_readings_waits_for_the_rule_of_its_field() {
    for (text, point, comma) in [
        ("1.234", 1.234, 1234.0),
        ("1,234", 1234.0, 1.234),
        ("-1.234", -1.234, -1234.0),
        ("($123,456)", -123_456.0, -123.456),
    ] {
        let read = amount(text);
        assert_eq!(read.supports, None, "{text}");
        assert_eq!(read.reading.by(RuleSet::default()), None, "{text}");
        for (rule, wanted) in [(Rule::DecimalPoint, point), (Rule::DecimalComma, comma)] {
            let mut rules = RuleSet::default();
            rules.set(Question::Decimals, Some(rule));
            assert_eq!(read.reading.by(rules), Some(wanted), "{text} {rule:?}");
        }
    }
}

#[test]
fn an_amount_says_which_sign_stands_before_its_fraction() {
    for (text, wanted) in [
        ("12,50", Some(Rule::DecimalComma)),
        ("1.234,50", Some(Rule::DecimalComma)),
        ("1.234.567", Some(Rule::DecimalComma)),
        ("12.50", Some(Rule::DecimalPoint)),
        ("1,234,567", Some(Rule::DecimalPoint)),
        ("1 234.50", Some(Rule::DecimalPoint)),
        ("1 234", None),
        ("12", None),
        ("1.234", None),
    ] {
        assert_eq!(amount(text).supports, wanted, "{text}");
    }
    assert_eq!(read_amount(Some("12.5")).supports, None, "a number");
}

#[test]
fn what_is_no_amount_is_unreadable_and_nothing_is_absent() {
    for text in [
        "free",
        "12 50",
        "1.23.456,00",
        "1.234.56",
        "12,,5",
        "5.",
        "5,",
        "--5",
        "-(5)",
        "(-5)",
        "+-5",
        "$5 EUR",
        "€€5",
        "1.234,567.8",
        "1,234 50",
        "12a",
        "ABC 5",
        "5%",
        "1e3",
        "-",
        "$",
        "0,123,456",
        "1_000",
        "٣",
        "1234,567,890",
    ] {
        assert_eq!(amount(text).reading, Reading::Unreadable, "{text}");
    }
    for other in ["true", "[1]", r#"{"amount":1}"#, "1e999"] {
        assert_eq!(
            read_amount(Some(other)).reading,
            Reading::Unreadable,
            "{other}"
        );
    }
    for absent in [None, Some("null"), Some("\"\""), Some("\"  \"")] {
        assert_eq!(read_amount(absent).reading, Reading::Absent, "{absent:?}");
    }
}

#[test]
fn an_instant_is_read_in_each_form_and_compared_as_one() {
    let wanted: Timestamp = "2026-11-27T09:30:15Z".parse().unwrap();
    for text in [
        "2026-11-27T09:30:15.000000Z",
        "2026-11-27T09:30:15Z",
        "2026-11-27t09:30:15z",
        "2026-11-27 09:30:15Z",
        "2026-11-27T09:30:15",
        "2026-11-27 09:30:15",
        "2026-11-27 09:30:15 UTC",
        "2026-11-27T10:30:15+01:00",
        "2026-11-27 10:30:15 +0100",
        "2026-11-27T04:30:15-0500",
        "Fri, 27 Nov 2026 09:30:15 +0000",
        "27 Nov 2026 10:30:15 +0100",
        "1795771815",
        "1795771815000",
    ] {
        assert_eq!(instant(text), Reading::Certain(wanted), "{text}");
    }
    for number in ["1795771815", "1795771815000", "1795771815.0"] {
        let read = read_instant(Some(number), &new_york()).reading;
        assert_eq!(read, Reading::Certain(wanted), "{number}");
    }
    let half = read_instant(Some("1795771815.5"), &new_york()).reading;
    assert_eq!(
        half,
        Reading::Certain("2026-11-27T09:30:15.5Z".parse().unwrap())
    );
}

#[test]
fn a_date_alone_is_a_day_of_the_shop() {
    let midnight: Timestamp = "2026-11-27T05:00:00Z".parse().unwrap();
    assert_eq!(instant("2026-11-27"), Reading::Certain(midnight));
}

#[test]
fn what_is_no_instant_is_unreadable() {
    for text in [
        "soon",
        "27/11/2026 10:00",
        "2026-13-01T00:00:00Z",
        "2026-02-30",
        "0000-00-00 00:00:00",
        "12345",
        "99999999999",
        "10:30",
        "2026",
        "-0001-01-01T00:00:00Z",
    ] {
        assert_eq!(instant(text), Reading::Unreadable, "{text}");
    }
    for other in ["true", "{}", "12345", "-1795771815", "1e9"] {
        let read = read_instant(Some(other), &new_york()).reading;
        assert_eq!(read, Reading::Unreadable, "{other}");
    }
    assert_eq!(
        read_instant(Some("null"), &new_york()).reading,
        Reading::Absent
    );
}

#[test]
fn a_day_without_a_zone_is_taken_as_written() {
    let wanted = Reading::Certain(date(2026, 11, 27));
    for text in [
        "2026-11-27",
        "2026-11-27T23:59:59",
        "2026-11-27 23:59",
        "2026/11/27",
        "2026/11/27 08:00",
        "27 Nov 2026",
        "27. November 2026, 10:30",
        "Nov 27, 2026",
        "November 27 2026 10:30 PM",
    ] {
        assert_eq!(day(text).reading, wanted, "{text}");
        assert_eq!(day(text).supports, None, "{text}");
    }
    for text in [
        "27/11/2026",
        "27.11.2026",
        "27-11-2026 10:30",
        "27/11/2026, 10:30:00 pm",
    ] {
        assert_eq!(day(text).reading, wanted, "{text}");
        assert_eq!(day(text).supports, Some(Rule::DayFirst), "{text}");
    }
    assert_eq!(day("11/27/2026").reading, wanted);
    assert_eq!(day("11/27/2026").supports, Some(Rule::MonthFirst));
    assert_eq!(
        day("11/11/2026").reading,
        Reading::Certain(date(2026, 11, 11))
    );
    assert_eq!(day("11/11/2026").supports, None);
    let doubtful = Reading::Ambiguous([
        (Rule::DayFirst, date(2026, 11, 5)),
        (Rule::MonthFirst, date(2026, 5, 11)),
    ]);
    assert_eq!(day("05/11/2026").reading, doubtful);
}

#[test]
fn a_day_with_an_offset_is_a_date_at_midnight_or_a_moment() {
    let midnight = day("2026-11-27T00:00:00.000000Z");
    let two = Reading::Ambiguous([
        (Rule::Dates, date(2026, 11, 27)),
        (Rule::Moments, date(2026, 11, 26)),
    ]);
    assert_eq!(midnight.reading, two);
    assert_eq!(midnight.supports, Some(Rule::Dates));
    let own = day("2026-11-27T00:00:00-05:00");
    assert_eq!(
        own.reading,
        Reading::Certain(date(2026, 11, 27)),
        "both are the same day"
    );
    assert_eq!(own.supports, Some(Rule::Dates));
    let in_berlin = read_day(Some("\"2026-11-27T00:00:00Z\""), None, &berlin());
    assert_eq!(in_berlin.reading, Reading::Certain(date(2026, 11, 27)));
    for (text, wanted) in [
        ("2026-11-27T03:00:00Z", date(2026, 11, 26)),
        ("2026-11-27T23:30:00Z", date(2026, 11, 27)),
        ("2026-11-27T23:30:00-08:00", date(2026, 11, 28)),
    ] {
        assert_eq!(day(text).reading, Reading::Certain(wanted), "{text}");
        assert_eq!(day(text).supports, Some(Rule::Moments), "{text}");
    }
}

#[test]
fn what_is_no_day_is_unreadable() {
    for text in [
        "soon",
        "31/11/2026",
        "13/13/2026",
        "27/11/26",
        "2026-02-30",
        "27/11",
        "27 Okt 2026",
        "2026",
        "10:30",
        "27/11/2026 at noon",
        "27/11/2026 10:30 Z",
        "27/11/2026 a:30",
    ] {
        assert_eq!(day(text).reading, Reading::Unreadable, "{text}");
    }
    assert_eq!(day("").reading, Reading::Absent);
}

#[test]
fn a_configured_format_reads_first() {
    let format = |text: &str| text.parse::<DateFormat>().unwrap();
    let read = |text: &str, with: &str| {
        read_day(Some(&json(text)), Some(&format(with)), &new_york()).reading
    };
    let november = Reading::Certain(date(2026, 11, 5));
    assert_eq!(read("05/11/2026 10:30", "%d/%m/%Y %H:%M"), november);
    assert_eq!(read("11/05/2026 10:30", "%m/%d/%Y %H:%M"), november);
    assert_eq!(read("05.11.26", "%d.%m.%y"), november);
    assert_eq!(read("2026-11-05", "%d/%m/%Y"), november, "one reading only");
    assert_eq!(read("2026-11-05T00:00:00Z", "dates"), november);
    assert_eq!(read("2026-11-06T00:00:00Z", "moments"), november);
    assert_eq!(
        read("05/11/2026 23:00 -0800", "%d/%m/%Y %H:%M %z"),
        Reading::Certain(date(2026, 11, 6))
    );
    for bad in ["", "%H:%M", "%d/%m", "day/month/year", "%Q", "%"] {
        assert!(bad.parse::<DateFormat>().is_err(), "{bad}");
    }
}

#[test]
fn a_rule_is_found_by_five_values_kept_and_withdrawn_by_one_that_contradicts() {
    let of = |comma: i64, point: i64, before| {
        let mut evidence = Evidence::default();
        evidence.add(Rule::DecimalComma, comma);
        evidence.add(Rule::DecimalPoint, point);
        evidence.ruling(Question::Decimals, before)
    };
    let comma = Some(Rule::DecimalComma);
    assert_eq!(of(4, 0, None), Ruling::Open);
    assert_eq!(of(5, 0, None), Ruling::Found(Rule::DecimalComma));
    assert_eq!(of(500, 1, None), Ruling::Contradicted);
    assert_eq!(
        of(2, 0, comma),
        Ruling::Found(Rule::DecimalComma),
        "it is kept"
    );
    assert_eq!(of(5, 1, comma), Ruling::Contradicted);
    assert_eq!(of(0, 1, comma), Ruling::Contradicted);
    assert_eq!(of(0, 5, None), Ruling::Found(Rule::DecimalPoint));
}

#[test]
fn dates_are_five_midnights_and_moments_the_first_other_time() {
    let of = |midnights: i64, others: i64, before| {
        let mut evidence = Evidence::default();
        evidence.add(Rule::Dates, midnights);
        evidence.add(Rule::Moments, others);
        evidence.ruling(Question::Midnight, before)
    };
    assert_eq!(of(4, 0, None), Ruling::Open);
    assert_eq!(of(5, 0, None), Ruling::Found(Rule::Dates));
    assert_eq!(of(50, 1, Some(Rule::Dates)), Ruling::Found(Rule::Moments));
    assert_eq!(of(50, 0, Some(Rule::Moments)), Ruling::Found(Rule::Moments));
}

#[test]
fn a_record_is_read_by_the_fields_and_rules_of_its_route() {
    let settings = ReadSettings {
        time_zone: "America/New_York".to_owned(),
        fields: [(
            Route::Payments,
            [("amount".to_owned(), "sum".to_owned())].into(),
        )]
        .into(),
        ..ReadSettings::default()
    };
    let reader = |settings: &ReadSettings| {
        FieldReader::new(Route::Payments, settings, &settings.zone(), |_| {
            RuleSet::default()
        })
    };
    let text = r#"{"id":1,"created_at":1795771815,"amount":7,"sum":"-1.234"}"#;
    let fields = Fields::parse(text).unwrap();
    let read = reader(&settings).read(&fields).fields;
    let names: Vec<&str> = read.iter().map(|reading| reading.field).collect();
    assert_eq!(names, ["created_at", "updated_at", "amount"]);
    assert!(matches!(read[0].value, Some(ReadValue::Instant(_))));
    assert!(!read[1].is_sent && !read[1].is_unreadable && read[1].value.is_none());
    assert!(read[2].is_unreadable && read[2].sign == Some(-1) && read[2].value.is_none());
    let usual = reader(&ReadSettings::default()).read(&fields).fields;
    assert_eq!(usual[2].value, Some(ReadValue::Amount(7.0)));
    let mut none = settings;
    none.fields
        .get_mut(&Route::Payments)
        .unwrap()
        .insert("amount".to_owned(), String::new());
    let without = reader(&none).read(&fields).fields;
    assert_eq!((without[2].value, without[2].is_unreadable), (None, false));
}

#[test]
fn a_payment_is_a_refund_by_its_type_or_amount_and_void_by_its_status() {
    let settings = ReadSettings {
        refund_types: vec!["Refund".to_owned(), "Storno ".to_owned()],
        void_statuses: vec!["void".to_owned(), "9".to_owned()],
        ..ReadSettings::default()
    };
    let read = |settings: &ReadSettings, text: &str| {
        let reader = FieldReader::new(Route::Payments, settings, &settings.zone(), |_| {
            RuleSet::default()
        });
        let read = reader.read(&Fields::parse(text).unwrap());
        let amount = read.fields[2];
        (read.kind, amount.value, amount.sign)
    };
    let value = |amount: f64| Some(ReadValue::Amount(amount));
    let (paid, refund) = (Some(PaymentKind::Payment), Some(PaymentKind::Refund));
    let void = Some(PaymentKind::Void);
    for (text, kind, amount, sign) in [
        (r#"{"amount":7}"#, paid, value(7.0), None),
        (r#"{"amount":-7}"#, refund, value(-7.0), None),
        (
            r#"{"amount":7,"type":" refund"}"#,
            refund,
            value(-7.0),
            None,
        ),
        (
            r#"{"amount":-7,"type":"STORNO"}"#,
            refund,
            value(-7.0),
            None,
        ),
        (r#"{"amount":0,"type":"refund"}"#, refund, value(0.0), None),
        (r#"{"amount":null,"type":"refund"}"#, refund, None, Some(-1)),
        (r#"{"amount":null,"type":"sale"}"#, None, None, None),
        (r#"{"amount":"1.234"}"#, paid, None, Some(1)),
        (
            r#"{"amount":7,"payment_type":"sale","type":"refund"}"#,
            paid,
            value(7.0),
            None,
        ),
        (
            r#"{"amount":7,"payment_type":null,"type":"refund"}"#,
            refund,
            value(-7.0),
            None,
        ),
        (
            r#"{"amount":7,"type":"refund","status":"Void"}"#,
            void,
            value(7.0),
            None,
        ),
        (r#"{"amount":7,"payment_status":9}"#, void, value(7.0), None),
    ] {
        assert_eq!(read(&settings, text), (kind, amount, sign), "{text}");
    }
    let own = [("type".to_owned(), "art".to_owned())].into();
    let named = ReadSettings {
        fields: [(Route::Payments, own)].into(),
        ..settings
    };
    let text = r#"{"amount":7,"type":"sale","art":"Storno"}"#;
    assert_eq!(read(&named, text).0, refund);
    assert_eq!(PAYMENT_TYPE.sources(&named, |name| name == "type"), [""; 0]);
    assert_eq!(PAYMENT_TYPE.sources(&named, |name| name == "art"), ["art"]);
}

/// An amount in cents, as a shop may write it.
fn written(cents: i64, decimal: char, thousands: &str, rng: &mut fastrand::Rng) -> String {
    let digits = (cents.abs() / 100).to_string();
    let mut whole = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            whole.push_str(thousands);
        }
        whole.push(digit);
    }
    let amount = format!("{whole}{decimal}{:02}", cents.abs() % 100);
    let amount = match rng.u8(0..4) {
        0 => format!("€ {amount}"),
        1 => format!("{amount} EUR"),
        _ => amount,
    };
    match (cents < 0, rng.bool()) {
        (true, true) => format!("({amount})"),
        (true, false) => format!("-{amount}"),
        (false, _) => amount,
    }
}

#[test]
fn every_amount_that_a_shop_writes_with_cents_is_read_as_it_was_meant() {
    let mut rng = fastrand::Rng::with_seed(39);
    let styles = [
        ('.', ","),
        (',', "."),
        (',', " "),
        ('.', "'"),
        ('.', ""),
        (',', "\u{a0}"),
    ];
    for _ in 0..20_000 {
        let cents = rng.i64(-500_000_000..500_000_000);
        let (decimal, thousands) = styles[rng.usize(..styles.len())];
        let text = written(cents, decimal, thousands, &mut rng);
        let wanted = Reading::Certain(cents as f64 / 100.0);
        let read = amount(&text);
        assert_eq!(read.reading, wanted, "{text}");
        let rule = if decimal == '.' {
            Rule::DecimalPoint
        } else {
            Rule::DecimalComma
        };
        assert_eq!(read.supports, Some(rule), "{text}");
    }
}

#[test]
fn no_text_makes_a_reader_panic() {
    let parts = [
        "1", "12", "234", ".", ",", "'", " ", "-", "+", "(", ")", "€", "EUR", ":", "/", "T", "Z",
        "Nov", "2026", "27", "\u{a0}", "é", "%", "\\u00e9", "am",
    ];
    let mut rng = fastrand::Rng::with_seed(7);
    for _ in 0..50_000 {
        let mut text = String::new();
        for _ in 0..rng.usize(1..7) {
            text.push_str(parts[rng.usize(..parts.len())]);
        }
        let _ = (amount(&text), day(&text), instant(&text));
        let pattern = DateFormat::Pattern("%d/%m/%Y".to_owned());
        let _ = read_day(Some(&json(&text)), Some(&pattern), &berlin());
    }
}

#[test]
fn a_day_is_read_as_it_was_written_in_each_format() {
    let mut rng = fastrand::Rng::with_seed(5);
    for _ in 0..5_000 {
        let wanted = date(rng.i16(2020..2030), rng.i8(1..=12), rng.i8(1..=28));
        for (format, rule) in [
            ("%d/%m/%Y", Rule::DayFirst),
            ("%d.%m.%Y %H:%M", Rule::DayFirst),
            ("%m/%d/%Y", Rule::MonthFirst),
            ("%Y/%m/%d", Rule::DayFirst),
            ("%e %B %Y", Rule::MonthFirst),
        ] {
            let text = wanted.at(23, 30, 0, 0).strftime(format).to_string();
            let mut rules = RuleSet::default();
            rules.set(Question::DayOrder, Some(rule));
            assert_eq!(day(&text).reading.by(rules), Some(wanted), "{text}");
        }
    }
}
