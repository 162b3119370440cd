//! The currency of the machine, as its locale names the country.

/// The countries that have the euro.
const EURO: [&str; 21] = [
    "AT", "BE", "BG", "CY", "DE", "EE", "ES", "FI", "FR", "GR", "HR", "IE", "IT", "LT", "LU", "LV",
    "MT", "NL", "PT", "SI", "SK",
];
/// The currencies of other countries.
const OTHERS: [(&str, &str); 32] = [
    ("AE", "AED"),
    ("AR", "ARS"),
    ("AU", "AUD"),
    ("BD", "BDT"),
    ("BR", "BRL"),
    ("CA", "CAD"),
    ("CH", "CHF"),
    ("CL", "CLP"),
    ("CN", "CNY"),
    ("CO", "COP"),
    ("CZ", "CZK"),
    ("DK", "DKK"),
    ("EG", "EGP"),
    ("GB", "GBP"),
    ("HU", "HUF"),
    ("ID", "IDR"),
    ("IL", "ILS"),
    ("IN", "INR"),
    ("JP", "JPY"),
    ("KE", "KES"),
    ("MX", "MXN"),
    ("MY", "MYR"),
    ("NG", "NGN"),
    ("NO", "NOK"),
    ("NZ", "NZD"),
    ("PH", "PHP"),
    ("PL", "PLN"),
    ("SE", "SEK"),
    ("SG", "SGD"),
    ("TR", "TRY"),
    ("US", "USD"),
    ("ZA", "ZAR"),
];

/// The currency of this machine, if its locale names a country that is known.
pub(super) fn currency() -> Option<&'static str> {
    for variable in ["LC_ALL", "LC_MONETARY", "LANG"] {
        let locale = std::env::var(variable).unwrap_or_default();
        if !locale.is_empty() {
            return currency_of(&locale);
        }
    }
    None
}

/// The currency of a locale such as `de_AT.UTF-8`.
fn currency_of(locale: &str) -> Option<&'static str> {
    let (_, rest) = locale.split_once('_')?;
    let country = rest.split(['.', '@']).next()?;
    if EURO.contains(&country) {
        return Some("EUR");
    }
    let found = OTHERS.iter().find(|(name, _)| *name == country)?;
    Some(found.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_country_of_a_locale_names_the_currency() {
        assert_eq!(currency_of("de_AT.UTF-8"), Some("EUR"));
        assert_eq!(currency_of("en_GB"), Some("GBP"));
        assert_eq!(currency_of("pt_BR@x"), Some("BRL"));
        for unknown in ["C", "C.UTF-8", "POSIX", "en", "en_XX"] {
            assert_eq!(currency_of(unknown), None, "{unknown}");
        }
    }
}
