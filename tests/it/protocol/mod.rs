mod child;
mod measurements;
