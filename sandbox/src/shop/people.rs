//! The people and devices that come through the door: names, addresses, numbers, models.
//!
//! Owns the word lists and draws from them with the caller's random numbers only, so that a seed
//! gives the same people.

use std::borrow::Cow;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::fields::Fields;

const GIVEN: &[(&str, &str)] = &[
    ("Zoë", "zoe"),
    ("Łukasz", "lukasz"),
    ("Siobhán", "siobhan"),
    ("José", "jose"),
    ("Anaïs", "anais"),
    ("Jürgen", "juergen"),
    ("Søren", "soren"),
    ("Agata", "agata"),
    ("Priya", "priya"),
    ("Mohammed", "mohammed"),
    ("محمد", "m"),
    ("Ольга", "olga"),
    ("李娜", "lina"),
    ("さくら", "sakura"),
    ("Ngọc", "ngoc"),
    ("Γιώργος", "giorgos"),
    ("Tom", "tom"),
    ("Grace", "grace"),
    ("Ama", "ama"),
    ("Björk", "bjork"),
    ("Ravi", "ravi"),
    ("Elif", "elif"),
    ("Noah", "noah"),
    ("Chloé", "chloe"),
];
const FAMILY: &[(&str, &str)] = &[
    ("O'Brien", "obrien"),
    ("Nowak", "nowak"),
    ("Müller", "mueller"),
    ("García Márquez", "garcia"),
    ("Şahin", "sahin"),
    ("Sørensen", "sorensen"),
    ("Патрушева", "patrusheva"),
    ("王", "wang"),
    ("田中", "tanaka"),
    ("Nguyễn", "nguyen"),
    ("Papadopoulos", "papadopoulos"),
    ("Smith-Jones", "smithjones"),
    ("D’Angelo", "dangelo"),
    ("Öztürk", "ozturk"),
    ("Iyer", "iyer"),
    ("van der Berg", "vdberg"),
    ("Lefèvre", "lefevre"),
    ("Mensah", "mensah"),
    ("Þórsdóttir", "thorsdottir"),
    ("Brown", "brown"),
];
const COMPANIES: &[&str] = &[
    "Café Ñandú & Co.",
    "Kowalski Spedycja sp. z o.o.",
    "St. Mary’s School",
    "ООО «Ромашка»",
];
const MAIL: &[&str] = &["example.com", "example.org", "example.net", "mail.example"];
const STREETS: &[&str] = &[
    "Mill Lane",
    "Rue de l'Église",
    "Hauptstraße",
    "ul. Długa",
    "MG Road",
];
const CITIES: &[(&str, &str, &str)] = &[
    ("Bristol", "Avon", "BS1 4DJ"),
    ("Łódź", "łódzkie", "90-001"),
    ("Köln", "NRW", "50667"),
    ("Bengaluru", "Karnataka", "560001"),
];
const DEVICES: &[(&str, &str, &str)] = &[
    ("Smartphone", "Apple", "iPhone 14"),
    ("Smartphone", "Samsung", "Galaxy S23"),
    ("Smartphone", "Xiaomi", "Redmi Note 12"),
    ("Laptop", "Lenovo", "ThinkPad T14"),
    ("Laptop", "Apple", "MacBook Air 13\""),
    ("Laptop", "Dell", "XPS 15"),
    ("Tablet", "Apple", "iPad 10.2"),
    ("Console", "Sony", "PlayStation 5"),
    ("Console", "Nintendo", "Switch"),
    ("Hard drive", "Seagate", "Barracuda 4TB"),
];
const PROBLEMS: &[&str] = &[
    "Display cracked",
    "Does not charge",
    "Battery drains in an hour",
    "Water damage 💧",
    "No picture, fan runs",
    "Keyboard: keys \"a\" and \"s\" dead",
    "Data recovery\nfolder C:\\Photos",
];
/// The workspace's lead sources.
pub(super) const SOURCES: &[&str] = &[
    "Website",
    "Walk-in",
    "Google Ads",
    "Referral",
    "Telefónica fair",
];
const STAFF: &[&str] = &[
    "Maya Lindström",
    "Owen Clarke",
    "Ravi Iyer",
    "Beatriz Souza",
];
const VENDORS: &[&str] = &["BoardLab Ltd", "DataSalvage GmbH", "Glass & Frame Co."];

/// One of a list; the lists are never empty.
pub(super) fn one_of<'a, T>(rng: &mut Rng, list: &'a [T]) -> &'a T {
    &list[rng.usize(..list.len())]
}

/// A customer as every record about them repeats it.
#[derive(Debug, Clone)]
pub(super) struct Person {
    pub(super) name: String,
    pub(super) contact: Option<String>,
    pub(super) email: Option<String>,
    pub(super) country_code: Option<String>,
    pub(super) mobile: Option<String>,
    pub(super) phone: Option<String>,
    pub(super) address: Value,
    /// The device they bring, as far as they have said.
    pub(super) device: [Option<String>; 3],
}

impl Person {
    /// The customer that a record of intake names.
    pub(super) fn of(fields: &Fields) -> Self {
        let text = |name: &str| fields.get(name).as_str().map(str::to_owned);
        Self {
            name: fields.text("name").to_owned(),
            contact: text("contact_person_name"),
            email: text("email"),
            country_code: text("mobile_country_code"),
            mobile: text("mobile_number"),
            phone: text("phone_number"),
            address: fields.get("address").clone(),
            device: [
                text("device_type"),
                text("device_brand"),
                text("device_model"),
            ],
        }
    }
}

fn spelling<T>(list: &[T], name: &str, of: impl Fn(&T) -> &'static str) -> Option<&'static str> {
    let name = name.trim().to_lowercase();
    list.iter()
        .map(of)
        .find(|known| known.to_lowercase() == name)
}

/// The catalogue's spelling of a device type.
pub(crate) fn device_type(name: &str) -> Option<&'static str> {
    spelling(DEVICES, name, |device| device.0)
}

/// The catalogue's spelling of a brand.
pub(crate) fn device_brand(name: &str) -> Option<&'static str> {
    spelling(DEVICES, name, |device| device.1)
}

/// The catalogue's spelling of a model.
pub(crate) fn device_model(name: &str) -> Option<&'static str> {
    spelling(DEVICES, name, |device| device.2)
}

/// The workspace's spelling of a lead source.
pub(crate) fn source(name: &str) -> Option<&'static str> {
    spelling(SOURCES, name, |source| source)
}

/// A device as jobs and leads name it.
pub(super) type Device = (Cow<'static, str>, Cow<'static, str>, Cow<'static, str>);

/// Draws a person; `nth` makes the e-mail address and number unique.
pub(super) fn person(rng: &mut Rng, nth: usize) -> Person {
    let (given, latin_given) = *one_of(rng, GIVEN);
    let (family, latin_family) = *one_of(rng, FAMILY);
    let company = rng.u8(..12) == 0;
    let email = (rng.u8(..5) > 0)
        .then(|| format!("{latin_given}.{latin_family}{nth}@{}", one_of(rng, MAIL)));
    let (country_code, mobile) = match rng.u8(..4) {
        0 => ("+91", format!("98{:08}", 45_000_000 + nth)),
        1 => ("+48", format!("5{:08}", 12_000_000 + nth)),
        2 => (
            "+1",
            format!("415-{:03}-{:04}", nth / 10_000 % 1000, nth % 10_000),
        ),
        _ => ("+44", format!("07700 {:06}", 900_000 + nth % 100_000)),
    };
    let address = if rng.bool() {
        let (city, state, zip) = *one_of(rng, CITIES);
        let line = format!("{} {}", 1 + rng.u8(..180), one_of(rng, STREETS));
        json!({"address_line": line, "city": city, "state": state, "zip_code": zip})
    } else {
        Value::Null
    };
    Person {
        name: if company {
            (*one_of(rng, COMPANIES)).to_owned()
        } else {
            format!("{given} {family}")
        },
        contact: company.then(|| given.to_owned()),
        email,
        country_code: Some(country_code.to_owned()),
        mobile: Some(mobile),
        phone: (rng.u8(..6) == 0).then(|| format!("0117 {:06}", rng.u32(..1_000_000))),
        address,
        device: [const { None }; 3],
    }
}

pub(super) fn device(rng: &mut Rng) -> Device {
    let (kind, brand, model) = *one_of(rng, DEVICES);
    (kind.into(), brand.into(), model.into())
}

/// The device a person brings: what they have said of it, else what was drawn.
pub(super) fn brought(person: &Person, drawn: Device) -> Device {
    let [kind, brand, model] = person.device.clone();
    let said = |part: Option<String>, drawn| part.map_or(drawn, Cow::Owned);
    (
        said(kind, drawn.0),
        said(brand, drawn.1),
        said(model, drawn.2),
    )
}

pub(super) fn problem(rng: &mut Rng) -> &'static str {
    one_of::<&str>(rng, PROBLEMS)
}

pub(super) fn staff(rng: &mut Rng) -> &'static str {
    one_of::<&str>(rng, STAFF)
}

pub(super) fn vendor(rng: &mut Rng) -> &'static str {
    one_of::<&str>(rng, VENDORS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_people_and_no_two_share_a_number() {
        let draw = |seed| {
            let mut rng = Rng::with_seed(seed);
            (0..500)
                .map(|nth| person(&mut rng, nth))
                .collect::<Vec<_>>()
        };
        let people = draw(3);
        let again = draw(3);
        assert!(
            people
                .iter()
                .zip(&again)
                .all(|(a, b)| a.name == b.name && a.email == b.email)
        );
        let mut numbers: Vec<_> = people
            .iter()
            .map(|p| (&p.country_code, &p.mobile))
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), people.len());
        assert!(people.iter().any(|p| !p.name.is_ascii()));
    }
}
