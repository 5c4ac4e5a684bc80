module hedgerow.dev/tests/parts/pause

go 1.26.0
