//! An array by number in which most numbers may belong to nobody any more.
//!
//! Children have dense numbers that are never used again, so an array finds each by one look. But anybody can ask for
//! ids and never come back: an array as long as the numbers that were ever given would only grow. This one lies in pages,
//! and a page on which nobody is left is given back; what remains of it is a pointer.

use std::array;

/// What a place of a page holds: something, or nothing.
pub trait Place: Sized {
    const VACANT: Self;

    fn is_vacant(&self) -> bool;
}

impl<T> Place for Option<T> {
    const VACANT: Self = None;

    fn is_vacant(&self) -> bool {
        self.is_none()
    }
}

/// See the module's text. `N` places are on a page.
#[derive(Debug)]
pub struct Pages<P, const N: usize> {
    pages: Vec<Option<Box<Page<P, N>>>>,
}

#[derive(Debug)]
struct Page<P, const N: usize> {
    taken: usize,
    places: [P; N],
}

impl<P, const N: usize> Default for Pages<P, N> {
    fn default() -> Self {
        Self { pages: Vec::new() }
    }
}

impl<P: Place, const N: usize> Pages<P, N> {
    /// What is at a place, if it is not vacant.
    pub fn get(&self, at: usize) -> Option<&P> {
        let page = self.pages.get(at / N)?.as_ref()?;
        Some(&page.places[at % N]).filter(|place| !place.is_vacant())
    }

    /// The same, to be changed; what it becomes must not be vacant.
    pub fn get_mut(&mut self, at: usize) -> Option<&mut P> {
        let page = self.pages.get_mut(at / N)?.as_mut()?;
        Some(&mut page.places[at % N]).filter(|place| !place.is_vacant())
    }

    /// Puts something that is not vacant at a place; what was there is replaced.
    pub fn put(&mut self, at: usize, place: P) {
        if self.pages.len() <= at / N {
            make_room(&mut self.pages, at / N + 1);
            self.pages.resize_with(at / N + 1, || None);
        }
        let page = self.pages[at / N]
            .get_or_insert_with(|| Box::new(Page { taken: 0, places: array::from_fn(|_| P::VACANT) }));
        let before = std::mem::replace(&mut page.places[at % N], place);
        page.taken += usize::from(before.is_vacant());
    }

    /// Takes out what is at a place; `None`: it was vacant.
    pub fn take(&mut self, at: usize) -> Option<P> {
        let entry = self.pages.get_mut(at / N)?;
        let page = entry.as_mut()?;
        let taken =
            Some(std::mem::replace(&mut page.places[at % N], P::VACANT)).filter(|p| !p.is_vacant())?;
        page.taken -= 1;
        if page.taken == 0 {
            *entry = None;
        }
        Some(taken)
    }

    /// What is not vacant from a place on, in order.
    pub fn from(&self, first: usize) -> impl Iterator<Item = (usize, &P)> {
        let pages = self.pages.iter().enumerate().skip(first / N);
        let pages = pages.filter_map(|(number, page)| Some((number * N, page.as_ref()?)));
        let all = pages.flat_map(|(begin, page)| (begin..).zip(&page.places));
        all.filter(move |(at, place)| *at >= first && !place.is_vacant())
    }
}

/// Makes room for so many, and for an eighth more of those that are there: doubling would leave half of the memory empty.
fn make_room<T>(list: &mut Vec<T>, len: usize) {
    if list.capacity() < len {
        let more = (len - list.len()).max(list.len() / 8).max(64);
        list.reserve_exact(more);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    type Few = Pages<Option<usize>, 4>;

    fn pages_held(pages: &Few) -> usize {
        pages.pages.iter().flatten().count()
    }

    #[test]
    fn it_is_an_array() {
        let (mut pages, mut model) = (Few::default(), BTreeMap::new());
        for (at, value) in [(5, 1), (0, 2), (17, 3), (5, 4), (6, 5)] {
            pages.put(at, Some(value));
            model.insert(at, Some(value));
        }
        for at in [6, 3, 40, 17] {
            assert_eq!(pages.take(at), model.remove(&at), "{at}");
            assert_eq!(pages.take(at), None, "{at}");
        }
        pages.get_mut(5).unwrap().replace(7);
        model.insert(5, Some(7));
        for at in 0..50 {
            assert_eq!(pages.get(at), model.get(&at), "{at}");
            assert!(pages.from(at).eq(model.range(at..).map(|(at, value)| (*at, value))), "{at}");
        }
    }

    #[test]
    fn who_comes_and_goes_leaves_no_page_behind() {
        let mut pages = Few::default();
        for at in 0..100_000 {
            pages.put(at, Some(at));
            if let Some(gone) = at.checked_sub(10) {
                pages.take(gone);
            }
            assert!(pages_held(&pages) <= 4);
        }
        assert_eq!(pages.from(0).count(), 10);
        assert_eq!(pages.from(99_995).next(), Some((99_995, &Some(99_995))));
    }
}
