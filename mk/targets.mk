# targets.mk - what a person types, apart from building.
.PHONY: help clean
help:
	@echo "make            build build/quire"
clean:
	rm -rf $(ROOT)
