# Compiles a snippet as it is, which must work, and with FAULT defined, which must fail with the message of its line
# "// Message: <regex>". With ALLOWED given, the faulty snippet must compile with those options instead of OPTIONS: so
# it fails for the reason that the test names, not for a slip of the pen.
#   cmake -DCOMPILER=… -DSOURCE=… -DOPTIONS=…;… [-DALLOWED=…;…] -P check.cmake
file(STRINGS ${SOURCE} message REGEX "^// Message: ")
string(REGEX REPLACE "^// Message: " "" message "${message}")
if(NOT message)
  message(FATAL_ERROR "${SOURCE}: a line '// Message: <regex>' must say what the compiler is to answer")
endif()

function(try result)
  execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only ${ARGN} ${SOURCE}
                  ERROR_VARIABLE errors RESULT_VARIABLE status)
  set(${result} ${status} PARENT_SCOPE)
  set(errors "${errors}" PARENT_SCOPE)
endfunction()

try(status ${OPTIONS})
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${SOURCE}: must compile without its fault; got\n${errors}")
endif()
try(status ${OPTIONS} -DFAULT)
if(status EQUAL 0)
  message(FATAL_ERROR "${SOURCE}: must not compile with its fault")
endif()
if(NOT errors MATCHES "${message}")
  message(FATAL_ERROR "${SOURCE}: the compiler must answer '${message}'; got\n${errors}")
endif()
if(ALLOWED)
  try(status ${ALLOWED} -DFAULT)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${SOURCE}: must compile where the include is allowed; got\n${errors}")
  endif()
endif()
