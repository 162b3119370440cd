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

/// A workspace's search: a term's newest matches; the last made is the newest.
fn search<'m>(all: &'m [Made], place: text::Place, term: &str) -> Vec<Customer<'m>> {
    let way = Matching { place, case_matters: false };
    let plain = term.to_lowercase();
    all.iter()
        .rev()
        .filter(|made| {
            let texts = Texts::new([&made.name, &made.email, &made.mobile]);
            way.finds(&texts, term, &plain)
        })
        .take(MOST_SHOWN)
        .map(shown)
        .collect()
}

/// Walks the list from its newest hundred; returns how many are known after each search.
fn walk(all: &[Made], place: text::Place, most: usize) -> (Planner, Vec<usize>) {
    let mut planner = Planner::default();
    for made in all.iter().rev().take(100) {
        planner.know(shown(made));
    }
    let mut course = Vec::new();
    while course.len() < most
        && let Some(term) = planner.next_term()
    {
        planner.answered(&term, &search(all, place, &term));
        course.push(planner.standing().known);
    }
    (planner, course)
}
