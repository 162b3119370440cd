use proptest::prelude::*;

use super::text::TermPlace;
use super::*;

struct Made {
    id: String,
    name: String,
    email: String,
    mobile: String,
}

fn shown(made: &Made) -> Customer<'_> {
    Customer { id: &made.id, name: &made.name, email: &made.email, mobile: &made.mobile }
}

/// A workspace whose search shows a term's newest matches; the last made is the newest.
struct Workspace {
    made: Vec<Made>,
    texts: Vec<Texts>,
    way: Matching,
}

impl Workspace {
    fn new(made: Vec<Made>) -> Self {
        let texts = made.iter().map(|m| Texts::new([&m.name, &m.email, &m.mobile])).collect();
        Self { made, texts, way: Matching { place: TermPlace::Anywhere, case_matters: false } }
    }

    /// National numbers at random; names from a pool of some thousand pairs; most have an e-mail.
    fn random(seed: u64, count: usize) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut words = |count: usize, least: usize| -> Vec<String> {
            let syllable = [
                "ba", "che", "di", "fo", "gu", "ha", "ki", "lo", "ma", "ne", "pra", "ro", "shi",
                "tho", "vy", "zan",
            ];
            (0..count)
                .map(|_| {
                    let parts = least + rng.usize(..2);
                    let word: String = (0..parts).map(|_| syllable[rng.usize(..16)]).collect();
                    word[..1].to_uppercase() + &word[1..]
                })
                .collect()
        };
        let (given, family) = (words(40, 1), words(60, 2));
        let mail = ["gmail.com", "outlook.com", "example.org", "mail.example", "example.net"];
        let made = (0..count)
            .map(|nth| {
                let (given, family) = (&given[rng.usize(..40)], &family[rng.usize(..60)]);
                let address = format!("{given}.{family}{}@{}", rng.u8(..100), mail[rng.usize(..5)]);
                Made {
                    id: nth.to_string(),
                    name: format!("{given} {family}"),
                    email: if rng.u8(..5) == 0 { String::new() } else { address.to_lowercase() },
                    mobile: format!("{:010}", rng.u64(..10_000_000_000)),
                }
            })
            .collect();
        Self::new(made)
    }

    fn search(&self, term: &str) -> Vec<Customer<'_>> {
        let term = Term::new(term);
        let matches = |texts: &Texts| self.way.finds(texts, &term);
        let newest = self.made.iter().zip(&self.texts).rev();
        newest.filter(|(_, t)| matches(t)).take(MOST_SHOWN).map(|(m, _)| shown(m)).collect()
    }

    /// Knows the newest hundred, as a first page shows them.
    fn begin(&self) -> Planner {
        let mut planner = Planner::default();
        for made in self.made.iter().rev().take(100) {
            planner.know(shown(made));
        }
        planner
    }

    /// Searches up to `most` times; returns the terms.
    fn walk(&self, planner: &mut Planner, most: usize) -> Vec<String> {
        let mut asked = Vec::new();
        while asked.len() < most
            && let Some(term) = planner.next_term()
        {
            planner.answered(&term, &self.search(&term));
            asked.push(term);
        }
        asked
    }
}

/// Known share in per cent, and the searches made until it was 99 or `most` were made.
fn course(workspace: &Workspace, most: usize) -> (f64, usize) {
    let mut planner = workspace.begin();
    let (mut asked, mut found) = (0, 0.0);
    while asked < most && found < 99.0 {
        let made = workspace.walk(&mut planner, 10.min(most - asked)).len();
        asked += made;
        found = 100.0 * planner.status().known as f64 / workspace.made.len() as f64;
        if made == 0 {
            break;
        }
    }
    (found, asked)
}

#[test]
fn nearly_all_of_a_thousand_customers_are_found_with_two_hundred_searches() {
    let (found, asked) = course(&Workspace::random(1, 1_000), 200);
    assert!(found >= 95.0, "{found} % with {asked}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn whatever_is_answered_no_term_is_asked_twice_or_too_long(
        texts in prop::collection::vec(("\\PC{0,12}", "[a-z@. ]{0,10}", "[0-9 +-]{0,14}"), 1..40),
        answers in prop::collection::vec(prop::collection::vec(0_usize..40, 0..30), 30),
    ) {
        let made: Vec<Made> = texts
            .into_iter()
            .enumerate()
            .map(|(nth, (name, email, mobile))| Made { id: nth.to_string(), name, email, mobile })
            .collect();
        let mut planner = Planner::default();
        planner.know(shown(&made[0]));
        let mut asked = HashSet::new();
        for answer in answers {
            let Some(term) = planner.next_term() else { break };
            prop_assert!((1..=100).contains(&term.chars().count()), "{term:?}");
            prop_assert_eq!(term.trim(), term.as_str());
            prop_assert!(asked.insert(term.clone()), "{term:?} again");
            let found: Vec<_> = answer.iter().filter_map(|nth| made.get(*nth)).map(shown).collect();
            planner.answered(&term, &found);
            let status = planner.status();
            prop_assert!(status.known <= made.len() && status.total >= status.known);
        }
    }
}
