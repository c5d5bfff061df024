mod child;
