# Run at build time: writes OUTPUT with version, commit and compiler, only when something changed.
set(commit "")
find_program(git_program git)
if(git_program)
  execute_process(COMMAND ${git_program} describe --always --dirty --abbrev=10
    WORKING_DIRECTORY "${SOURCE_DIR}" OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
set(text "#define FOREPLAN_VERSION \"${VERSION}\"
#define FOREPLAN_GIT_COMMIT \"${commit}\"
#define FOREPLAN_COMPILER \"${COMPILER}\"
")
set(before "")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" before)
endif()
if(NOT before STREQUAL text)
  file(WRITE "${OUTPUT}" "${text}")
endif()
