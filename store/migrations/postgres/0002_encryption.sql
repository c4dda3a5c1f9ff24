CREATE TABLE encryption (
    key text PRIMARY KEY -- id of a key that values of the log are sealed with
);
