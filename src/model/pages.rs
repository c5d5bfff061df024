//! An array by number in which most numbers may belong to nobody any more, and of which a copy costs next to nothing.
//!
//! Children have dense numbers that are never used again, so an array finds each by one look. But anybody can ask for
//! ids and never come back: an array as long as the numbers that were ever given would only grow. This one lies in pages,
//! and a page on which nobody is left is given back; what remains of it is a pointer.
//!
//! The pages hang in a tree, and a copy shares all of it with the original. Who changes a place copies the page and the
//! branches that lead there, and only while they are shared: so a writer goes on beside readers who look at a copy, for the
//! price of what it changes meanwhile, and for none while nobody looks.

use std::{array, sync::Arc};

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

/// Ways on from a branch: few enough that to copy one is little, so many that the tree stays low.
const FAN: usize = 32;

/// An array by number in pages of `N` places, which are given back when they are empty. A copy shares them.
#[derive(Debug, Clone)]
pub struct Pages<P, const N: usize> {
    /// Each leads to [`FAN`] times [`FAN`] pages.
    trunks: Vec<Option<Arc<Trunk<P, N>>>>,
}

type Trunk<P, const N: usize> = Branch<Branch<Page<P, N>>>;

#[derive(Debug)]
struct Branch<T> {
    taken: usize,
    below: [Option<Arc<T>>; FAN],
}

#[derive(Debug, Clone)]
struct Page<P, const N: usize> {
    taken: usize,
    places: [P; N],
}

impl<P, const N: usize> Default for Pages<P, N> {
    fn default() -> Self {
        Self { trunks: Vec::new() }
    }
}

/// What hangs in the tree: pages, and branches of it.
trait Hangs: Default {
    fn is_bare(&self) -> bool;
}

impl<T> Clone for Branch<T> {
    fn clone(&self) -> Self {
        Self { taken: self.taken, below: self.below.clone() }
    }
}

impl<T> Default for Branch<T> {
    fn default() -> Self {
        Self { taken: 0, below: array::from_fn(|_| None) }
    }
}

impl<T> Hangs for Branch<T> {
    fn is_bare(&self) -> bool {
        self.taken == 0
    }
}

impl<P: Place, const N: usize> Default for Page<P, N> {
    fn default() -> Self {
        Self { taken: 0, places: array::from_fn(|_| P::VACANT) }
    }
}

impl<P: Place, const N: usize> Hangs for Page<P, N> {
    fn is_bare(&self) -> bool {
        self.taken == 0
    }
}

impl<T: Hangs + Clone> Branch<T> {
    fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.below[at].as_mut().map(Arc::make_mut)
    }

    fn grow(&mut self, at: usize) -> &mut T {
        let below = &mut self.below[at];
        self.taken += usize::from(below.is_none());
        Arc::make_mut(below.get_or_insert_default())
    }

    /// Lets go of what is bare there.
    fn prune(&mut self, at: usize) {
        let below = &mut self.below[at];
        if below.as_ref().is_some_and(|below| below.is_bare()) {
            *below = None;
            self.taken -= 1;
        }
    }
}

/// The way to a place: along which trunk, branch and page.
#[derive(Debug, Clone, Copy)]
struct Way {
    trunk: usize,
    branch: usize,
    page: usize,
    place: usize,
}

impl Way {
    const fn to<const N: usize>(at: usize) -> Self {
        let page = at / N;
        let branch = page / FAN;
        Self { trunk: branch / FAN, branch: branch % FAN, page: page % FAN, place: at % N }
    }
}

impl<P: Place, const N: usize> Pages<P, N> {
    /// How many pages there are, whatever is on them.
    pub fn page_count(&self) -> usize {
        let branches = self.trunks.iter().flatten().flat_map(|trunk| trunk.below.iter().flatten());
        branches.flat_map(|branch| branch.below.iter().flatten()).count()
    }

    /// What is at a place, if it is not vacant.
    pub fn get(&self, at: usize) -> Option<&P> {
        let way = Way::to::<N>(at);
        let page =
            self.trunks.get(way.trunk)?.as_ref()?.below[way.branch].as_ref()?.below[way.page].as_ref()?;
        Some(&page.places[way.place]).filter(|place| !place.is_vacant())
    }

    /// What is not vacant from a place on, in order.
    pub fn from(&self, first: usize) -> Iter<'_, P, N> {
        Iter { pages: self, at: first, page: None }
    }

    /// The first page from this one on, by number.
    fn page_from(&self, mut number: usize) -> Option<(usize, &Page<P, N>)> {
        loop {
            let way = Way::to::<N>(number * N);
            let Some(trunk) = self.trunks.get(way.trunk)? else {
                number = (way.trunk + 1) * FAN * FAN;
                continue;
            };
            let Some(branch) = &trunk.below[way.branch] else {
                number = (number / FAN + 1) * FAN;
                continue;
            };
            match &branch.below[way.page] {
                Some(found) => return Some((number, found)),
                None => number += 1,
            }
        }
    }
}

impl<P: Place + Clone, const N: usize> Pages<P, N> {
    /// What is at a place, to be changed; what it becomes must not be vacant.
    pub fn get_mut(&mut self, at: usize) -> Option<&mut P> {
        let way = Way::to::<N>(at);
        let trunk = Arc::make_mut(self.trunks.get_mut(way.trunk)?.as_mut()?);
        let page = trunk.get_mut(way.branch)?.get_mut(way.page)?;
        Some(&mut page.places[way.place]).filter(|place| !place.is_vacant())
    }

    /// Puts something that is not vacant at a place; what was there is replaced.
    pub fn put(&mut self, at: usize, place: P) {
        let way = Way::to::<N>(at);
        if self.trunks.len() <= way.trunk {
            self.trunks.resize_with(way.trunk + 1, || None);
        }
        let trunk = Arc::make_mut(self.trunks[way.trunk].get_or_insert_default());
        let page = trunk.grow(way.branch).grow(way.page);
        let before = std::mem::replace(&mut page.places[way.place], place);
        page.taken += usize::from(before.is_vacant());
    }

    /// Takes out what is at a place; `None`: it was vacant.
    pub fn take(&mut self, at: usize) -> Option<P> {
        self.get(at)?;
        let way = Way::to::<N>(at);
        let trunk = Arc::make_mut(self.trunks[way.trunk].as_mut()?);
        let branch = trunk.get_mut(way.branch)?;
        let page = branch.get_mut(way.page)?;
        let taken = std::mem::replace(&mut page.places[way.place], P::VACANT);
        page.taken -= 1;
        branch.prune(way.page);
        trunk.prune(way.branch);
        if trunk.is_bare() {
            self.trunks[way.trunk] = None;
        }
        Some(taken)
    }

    /// All that is not vacant, to be changed, in order; what it becomes must not be vacant.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut P)> {
        let trunks = self.trunks.iter_mut().enumerate();
        let branches = trunks.flat_map(|(at, trunk)| below(at, trunk.as_mut()));
        let pages = branches.flat_map(|(at, branch)| below(at, branch.as_mut()));
        let places = pages.filter_map(|(at, page)| Some((at * N, Arc::make_mut(page.as_mut()?))));
        let all = places.flat_map(|(begin, page)| (begin..).zip(&mut page.places));
        all.filter(|(_, place)| !place.is_vacant())
    }
}

type Hanging<T> = Option<Arc<T>>;

/// The ways on from a branch, numbered through over all of its level.
fn below<T>(
    at: usize,
    branch: Option<&mut Arc<Branch<T>>>,
) -> impl Iterator<Item = (usize, &mut Hanging<T>)> {
    let below = branch.map(|branch| Arc::make_mut(branch).below.iter_mut());
    (at * FAN..).zip(below.into_iter().flatten())
}

/// What is not vacant from a place on, in order.
#[derive(Debug)]
pub struct Iter<'a, P, const N: usize> {
    pages: &'a Pages<P, N>,
    at: usize,
    /// The page on which `at` is, once it was looked up.
    page: Option<&'a Page<P, N>>,
}

impl<P, const N: usize> Clone for Iter<'_, P, N> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<'a, P: Place, const N: usize> Iterator for Iter<'a, P, N> {
    type Item = (usize, &'a P);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let page = if let Some(page) = self.page {
                page
            } else {
                let (number, page) = self.pages.page_from(self.at / N)?;
                self.at = self.at.max(number * N);
                self.page = Some(page);
                page
            };
            let at = self.at;
            self.at += 1;
            if self.at.is_multiple_of(N) {
                self.page = None;
            }
            let place = &page.places[at % N];
            if !place.is_vacant() {
                return Some((at, place));
            }
        }
    }
}
